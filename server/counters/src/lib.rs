//! Numbers that the parts of a server count for metrics. With [`counters!`](counters), each part
//! declares a struct of plain integers and histograms, and the help, kind and unit of each field.
//! To count an event is to add to a field. [`Walk`] visits all fields with their names.
//!
//! Reading the numbers of a shard takes no longer with more groups: a walk copies them.
//! `counters.rs` in each part of a server declares the part's numbers.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod histogram;
mod totals;

pub use histogram::Histogram;
pub use totals::Totals;

use alloc::boxed::Box;
use alloc::vec::Vec;

/// How a number changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only grows, from 0 when its struct is created.
    Counter,
    /// Goes up and down.
    Gauge,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// A number of things. The metric's name says which things.
    Count,
    Bytes,
    Microseconds,
}

/// The description of a metric, without its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric {
    /// The part and the field, for example `groups_members_joined`.
    pub name: &'static str,
    /// The field's documentation.
    pub help: &'static str,
    pub kind: Kind,
    pub unit: Unit,
    /// The names of the labels that the values of this metric have; empty for a single value.
    pub labels: &'static [&'static str],
    pub is_histogram: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value<'v> {
    Number(u64),
    Histogram(&'v Histogram),
}

/// Label names and values, which distinguish the values of one metric.
pub type Labels<'l> = &'l [(&'static str, &'l str)];

/// A function that receives each number of a walk.
pub type Visitor<'v> = dyn FnMut(&Metric, Labels<'_>, Value<'_>) + 'v;

/// The type of a field.
pub trait Number {
    /// The names of the labels that distinguish its values.
    const LABELS: &'static [&'static str] = &[];

    const IS_HISTOGRAM: bool = false;

    /// Adds the same field of another struct, such as that of another shard.
    fn add(&mut self, other: &Self);

    fn visit(&self, metric: &Metric, visitor: &mut Visitor<'_>);
}

impl Number for u64 {
    fn add(&mut self, other: &Self) {
        *self += other;
    }

    fn visit(&self, metric: &Metric, visitor: &mut Visitor<'_>) {
        visitor(metric, &[], Value::Number(*self));
    }
}

/// A struct whose numbers can be visited, each with its [`Metric`].
pub trait Walk {
    fn walk(&self, visitor: &mut Visitor<'_>);
}

impl<W: Walk + ?Sized> Walk for Box<W> {
    fn walk(&self, visitor: &mut Visitor<'_>) {
        (**self).walk(visitor);
    }
}

/// Copies of the numbers of several parts.
pub type Copies = Vec<Box<dyn Walk + Send>>;

impl Walk for Copies {
    fn walk(&self, visitor: &mut Visitor<'_>) {
        self.iter().for_each(|part| part.walk(visitor));
    }
}

/// Declares the numbers of a part, and derives [`Walk`] and `+` for them:
///
/// ```
/// muster_counters::counters! {
///     /// The connections of a shard.
///     pub struct Connections in "connections" {
///         /// Connections that were accepted.
///         accepted: u64 = Counter of Count,
///     }
/// }
/// let server = Connections { accepted: 2 } + Connections { accepted: 3 };
/// muster_counters::Walk::walk(&server, &mut |metric, _, value| {
///     assert_eq!(metric.name, "connections_accepted");
///     assert_eq!(metric.help, "Connections that were accepted.");
///     assert_eq!(value, muster_counters::Value::Number(5));
/// });
/// ```
///
/// A field may be a `u64` or have any other type that is a [`Number`].
#[macro_export]
macro_rules! counters {
    ($(#[$of_all:meta])* $vis:vis struct $name:ident in $part:literal {$(
        $(#[doc = $help:literal])+
        $field:ident: $ty:ty = $kind:ident of $unit:ident,
    )*}) => {
        $(#[$of_all])*
        #[derive(Debug, Clone, Default, PartialEq, Eq)]
        $vis struct $name {
            $($(#[doc = $help])+ pub $field: $ty,)*
        }

        impl $name {
            /// The descriptions of all numbers, in order.
            #[allow(dead_code, reason = "some are part of a list elsewhere")]
            $vis const METRICS: &'static [$crate::Metric] = &[$($crate::Metric {
                name: concat!($part, "_", stringify!($field)),
                help: concat!($($help),+).trim_ascii_start(),
                kind: $crate::Kind::$kind,
                unit: $crate::Unit::$unit,
                labels: <$ty as $crate::Number>::LABELS,
                is_histogram: <$ty as $crate::Number>::IS_HISTOGRAM,
            }),*];
        }

        impl core::ops::Add for $name {
            type Output = Self;

            fn add(mut self, other: Self) -> Self {
                $($crate::Number::add(&mut self.$field, &other.$field);)*
                self
            }
        }

        impl $crate::Walk for $name {
            fn walk(&self, visitor: &mut $crate::Visitor<'_>) {
                let mut metrics = Self::METRICS.iter();
                $(if let Some(metric) = metrics.next() {
                    $crate::Number::visit(&self.$field, metric, visitor);
                })*
            }
        }
    };
}
