//! The real clients of a run: which of them are up, and the orders to start and stop them.

use std::sync::Arc;

use super::file::Scenario;
use super::run_plan::RunPlan;
use crate::client::{ClientOrder, ClientPlan};
use crate::event::{Event, EventKind};
use crate::plan::{GroupPlan, MemberIndex};
use crate::topics::Topics;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Presence {
    Down,
    /// Started, but its first callback has not come: nothing was assigned yet.
    Starting,
    Up,
    /// The client was asked to end.
    Going,
}

#[derive(Debug)]
pub(super) struct Clients {
    all: Vec<Planned>,
    /// Sentences on the clients that ended without being asked to, since the failures were last
    /// taken.
    failures: Vec<String>,
}

#[derive(Debug)]
struct Planned {
    plan: Arc<ClientPlan>,
    /// The name of the client's table in the scenario.
    table: String,
    presence: Presence,
}

impl Clients {
    pub(super) fn new(scenario: &Scenario, plan: &RunPlan, topics: &Topics) -> Self {
        let mut all: Vec<Planned> = Vec::new();
        for table in &scenario.clients {
            let groups = plan.groups_named(std::slice::from_ref(&table.group));
            let each =
                groups.iter().flat_map(|group| std::iter::repeat_n(*group, table.count as usize));
            let several = groups.len() * table.count as usize > 1;
            for (number, group) in each.enumerate() {
                let name =
                    if several { format!("{}-{number}", table.name) } else { table.name.clone() };
                let index = MemberIndex(plan.member_count() + all.len() as u32);
                let command = command(&table.command, &name, plan.group(group), topics);
                let plan = ClientPlan { index, group, name: name.into(), command };
                let (plan, table) = (Arc::new(plan), table.name.clone());
                all.push(Planned { plan, table, presence: Presence::Down });
            }
        }
        Self { all, failures: Vec::new() }
    }

    /// Orders the start of all clients of these tables that are down. Returns false if none is
    /// down.
    pub(super) fn start(&mut self, tables: &[String], orders: &mut Vec<ClientOrder>) -> bool {
        let before = orders.len();
        for client in self.named(tables).filter(|client| client.presence == Presence::Down) {
            client.presence = Presence::Starting;
            orders.push(ClientOrder::Start(client.plan.clone()));
        }
        orders.len() > before
    }

    /// Orders the end of all clients of these tables that are not down. Returns false if all are
    /// down.
    pub(super) fn stop(
        &mut self,
        tables: &[String],
        kill: bool,
        orders: &mut Vec<ClientOrder>,
    ) -> bool {
        let before = orders.len();
        for client in self.named(tables).filter(|client| client.presence != Presence::Down) {
            client.presence = Presence::Going;
            orders.push(ClientOrder::Stop { client: client.plan.index, kill });
        }
        orders.len() > before
    }

    pub(super) fn observe(&mut self, event: &Event) {
        let Some(client) = self.all.iter_mut().find(|client| client.plan.index == event.member)
        else {
            return;
        };
        match (&event.kind, client.presence) {
            (EventKind::ClientAssigned { .. }, Presence::Starting) => {
                client.presence = Presence::Up
            }
            (EventKind::ClientEnded { how }, was) => {
                client.presence = Presence::Down;
                if was != Presence::Going {
                    let name = &client.plan.name;
                    self.failures.push(format!("client {name} ended by itself: {how}"));
                }
            }
            _ => {}
        }
    }

    /// Whether clients are starting or ending.
    pub(super) fn are_moving(&self) -> bool {
        let moving =
            |client: &Planned| matches!(client.presence, Presence::Starting | Presence::Going);
        self.all.iter().any(moving)
    }

    pub(super) fn are_running(&self) -> bool {
        self.all.iter().any(|client| client.presence != Presence::Down)
    }

    /// If a client was started or asked to end, and has not done so yet, a sentence about it.
    pub(super) fn late(&self) -> Option<String> {
        let sentence = |client: &Planned| match client.presence {
            Presence::Starting => Some(format!("client {} had no callback", client.plan.name)),
            Presence::Going => Some(format!("client {} did not end", client.plan.name)),
            Presence::Down | Presence::Up => None,
        };
        self.all.iter().find_map(sentence)
    }

    pub(super) fn take_failures(&mut self) -> Vec<String> {
        std::mem::take(&mut self.failures)
    }

    /// The clients of these tables, or all clients if no table is named.
    fn named<'a>(&'a mut self, tables: &'a [String]) -> impl Iterator<Item = &'a mut Planned> {
        let all = self.all.iter_mut();
        all.filter(|client| tables.is_empty() || tables.contains(&client.table))
    }
}

/// A command as the scenario has it, but with the names of this run instead of placeholders.
fn command(words: &[String], name: &str, group: &GroupPlan, topics: &Topics) -> Vec<String> {
    let known = group.subscription.topics().iter().filter_map(|index| topics.get(*index));
    let topics = Vec::from_iter(known.map(|topic| &*topic.name)).join(",");
    let replaced = |word: &String| {
        let word = word.replace("{name}", name).replace("{group}", &group.id);
        let millis = group.session_timeout.as_millis().to_string();
        word.replace("{topics}", &topics).replace("{session-timeout-ms}", &millis)
    };
    words.iter().map(replaced).collect()
}
