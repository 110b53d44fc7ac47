//! A shard's part in a reset of the cluster. The admin side asks for it slice by slice.

use super::Shard;
use crate::controller;
use crate::inquiry::Reset;
use muster_coordinator::Topics;

/// A slice that resets groups ends after about this number of operations in the log.
const OPERATIONS_OF_SLICE: u64 = 1_000;

impl Shard {
    /// Performs a slice. Returns the slice to ask for next, or None after the last. If the state
    /// cannot be removed now, it returns the same slice, so that the admin side asks again.
    pub(super) fn reset(&mut self, reset: Reset) -> Option<Reset> {
        if self.runtime.is_closed() {
            return Some(reset);
        }
        match reset {
            Reset::Transactions => {
                let (transactions, inputs) = self.of_transactions();
                let has_more = transactions.reset(inputs);
                self.settle_transactions();
                has_more.then_some(Reset::Transactions)
            }
            Reset::Groups(mut from) => {
                let until = self.runtime.log().progress().accepted() + OPERATIONS_OF_SLICE;
                loop {
                    let (groups, inputs, connections) = self.of_groups();
                    from = groups.reset_slice(from, inputs, |reply| connections.reply(reply));
                    let has_enough = self.runtime.log().progress().accepted() >= until;
                    if from.is_none() || has_enough || self.runtime.is_closed() {
                        return from.map(|from| Reset::Groups(Some(from)));
                    }
                }
            }
            Reset::Cluster => {
                let Self { controller, broker, runtime, ids, errors, times, .. } = self;
                let controller = controller.as_mut()?;
                let (view, ids) = (broker.view(), ids.as_mut());
                let inputs = controller::Inputs { times: *times, view, ids, errors, runtime };
                controller.reset(inputs);
                let new = controller.accepted();
                Some(Reset::Taken { topics: new.version(), access: new.access_version() })
            }
            Reset::Taken { topics, access } => {
                let image = self.broker.image();
                let has_it = image.version() >= topics && image.access_version() >= access;
                (!has_it).then_some(reset)
            }
        }
    }
}
