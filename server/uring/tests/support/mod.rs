//! Support for the tests of both drivers. `of_both!` makes a test of each driver from a generic
//! test.

#![allow(dead_code, reason = "each test uses a part of it")]

use muster_uring::{Config, Driver, Poller, Ring};

pub(crate) trait Made: Driver {
    fn made() -> Self;

    /// Creates a driver with tiny queues, if it has queues.
    fn small() -> Self;
}

pub(crate) fn small() -> Config {
    Config {
        sq_entries: 8,
        cq_entries: 16,
        recv_buffers: 8,
        recv_buffer_bytes: 256,
        bulk_buffers: 4,
        bulk_buffer_bytes: 512,
        connections_max: 600,
    }
}

impl Made for Ring {
    fn made() -> Self {
        Self::new(Config::default()).unwrap()
    }

    fn small() -> Self {
        Self::new(small()).unwrap()
    }
}

impl Made for Poller {
    fn made() -> Self {
        Self::new().unwrap()
    }

    fn small() -> Self {
        Self::made()
    }
}

macro_rules! of_both {
    ($($story:ident,)*) => {
        mod ring {
            $(#[test]
            fn $story() {
                super::$story::<muster_uring::Ring>();
            })*
        }

        mod poller {
            $(#[test]
            fn $story() {
                super::$story::<muster_uring::Poller>();
            })*
        }
    };
}

pub(crate) use of_both;
