//! Changes of certificates. The certificate thread first checks the certificates that would be used
//! if a request were accepted. The controller then uses the result to decide the request, unless it
//! would now lead to other certificates, which are checked first.

use super::Asked;
use crate::config::ShardTls;
use crate::event::{CertificateOrder, Command};
use crate::mailbox::ToController;
use crate::placement::CONTROLLER;
use std::collections::BTreeMap;

/// The reasons why a shard cannot use its certificates, by the number of the shard.
pub(super) type Refusals = BTreeMap<u32, String>;

/// The requests whose certificates are being checked.
#[derive(Debug, Default)]
pub(super) struct Checks {
    /// The number of checks so far.
    number: u64,
    waiting: BTreeMap<u64, Waiting>,
    orders: Vec<CertificateOrder>,
}

/// A request, and the certificates that it would lead to.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) asked: Asked,
    pub(super) replacements: Vec<ShardTls>,
}

impl Checks {
    /// Orders a check of certificates.
    pub(super) fn ask(&mut self, asked: Asked, replacements: Vec<ShardTls>) {
        self.number += 1;
        let (number, checked) = (self.number, replacements.clone());
        self.orders.push(CertificateOrder::Check { number, replacements: checked });
        self.waiting.insert(number, Waiting { asked, replacements });
    }

    /// Takes the request whose certificates were checked. None if the check was ordered by an
    /// earlier controller, which this one has replaced.
    pub(super) fn checked(&mut self, number: u64) -> Option<Waiting> {
        self.waiting.remove(&number)
    }

    pub(super) fn take_orders(&mut self) -> impl Iterator<Item = Command> {
        self.orders.drain(..).map(Command::Certificates)
    }

    /// The undecided requests, for the next controller.
    pub(super) fn leave(self) -> impl Iterator<Item = Command> {
        self.waiting.into_values().map(|waiting| {
            let Asked { from, request, admin } = waiting.asked;
            Command::mail(CONTROLLER, ToController::Admin { from, request, admin })
        })
    }
}
