//! The measures of real clients beside the members, from the lines that they print.

use std::collections::{BTreeMap, BTreeSet};

use crate::event::{Event, EventKind};
use crate::plan::{MemberIndex, Partition};
use crate::report::model::{Callback, Client};
use crate::time::Time;

/// The number of callbacks of a client that are kept in full. Later ones are only counted.
const CALLBACKS: usize = 100;

#[derive(Default)]
pub(super) struct Clients {
    all: BTreeMap<MemberIndex, Known>,
}

struct Known {
    shown: Client,
    owns: BTreeSet<Partition>,
}

impl Clients {
    /// Takes an event of a client in the group with the id `group`.
    pub(super) fn observe(&mut self, event: &Event, group: &str) {
        if let EventKind::ClientStarted { name } = &event.kind {
            self.all.entry(event.member).or_insert_with(|| Known::new(name, group, event.at));
        }
        if let Some(known) = self.all.get_mut(&event.member) {
            known.observe(event);
        }
    }

    /// How many partitions all clients own. `None` if there are no clients.
    pub(super) fn partitions(&self) -> Option<u32> {
        let owned = self.all.values().map(|known| known.owns.len() as u32);
        (!self.all.is_empty()).then(|| owned.sum())
    }

    pub(super) fn shown(&self) -> Vec<Client> {
        self.all.values().map(|known| known.shown.clone()).collect()
    }
}

impl Known {
    fn new(name: &str, group: &str, at: Time) -> Self {
        let (name, group, started) = (name.to_owned(), group.to_owned(), at.seconds());
        let shown = Client { name, group, started, ..Client::default() };
        Self { shown, owns: BTreeSet::new() }
    }

    fn observe(&mut self, event: &Event) {
        match &event.kind {
            EventKind::ClientStarted { .. } => (self.shown.ended, self.shown.how) = (None, None),
            EventKind::ClientAssigned { partitions } => {
                self.owns.extend(partitions.iter().copied());
                self.called_back(event.at, "assigned", partitions);
            }
            EventKind::ClientRevoked { partitions } => {
                self.owns.retain(|owned| !partitions.contains(owned));
                self.called_back(event.at, "revoked", partitions);
            }
            EventKind::ClientLost { partitions } => {
                self.owns.retain(|owned| !partitions.contains(owned));
                self.called_back(event.at, "lost", partitions);
            }
            EventKind::ClientEnded { how } => {
                self.owns.clear();
                self.shown.partitions = 0;
                (self.shown.ended, self.shown.how) =
                    (Some(event.at.seconds()), Some((**how).into()));
            }
            _ => {}
        }
    }

    fn called_back(&mut self, at: Time, event: &str, partitions: &[Partition]) {
        let shown = &mut self.shown;
        shown.partitions = self.owns.len() as u32;
        shown.partitions_max = shown.partitions_max.max(shown.partitions);
        shown.callbacks_count += 1;
        if shown.callbacks.len() < CALLBACKS {
            let (event, partitions) = (event.to_owned(), partitions.len() as u32);
            shown.callbacks.push(Callback { at: at.seconds(), event, partitions });
        }
    }
}
