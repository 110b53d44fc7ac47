//! A coordinator with the parts of a server: clock, log, and slots that answer.

use crate::common::snapshot::Snapshot;
use crate::common::{Around, RecordBytes, read, record_bytes};
use crate::coverage::Coverage;
use crate::event::Line;
use crate::print;
use muster_codec::records::{TransactionLogKey, TransactionLogValue, TransactionRecord};
use muster_transactions::message::{FromSlot, Report, Stamp, ToSlotBody};
use muster_transactions::{
    Caller, Config, Coordinator, Output, PartitionSet, RequestId, Slot, State,
};
use std::collections::BTreeMap;

/// The number of slots. Partition n is in slot n modulo this number.
const SLOTS: Slot = 3;

pub struct World {
    config: Config,
    coordinator: Option<Coordinator>,
    around: Around,
    epoch: i32,
    log: Vec<RecordBytes>,
    /// The label of each parked request.
    waiting: BTreeMap<RequestId, String>,
    requests: u64,
    questions: u64,
    /// The syncs and markers that each slot has not answered yet.
    syncs: BTreeMap<Slot, Vec<(Stamp, PartitionSet)>>,
    markers: BTreeMap<Slot, Vec<(Stamp, PartitionSet)>>,
    /// Whether the log refuses the next records.
    is_refusing: bool,
}

impl Default for World {
    fn default() -> Self {
        Self {
            config: Config::default(),
            coordinator: None,
            around: Around::new(SLOTS),
            epoch: 0,
            log: Vec::new(),
            waiting: BTreeMap::new(),
            requests: 0,
            questions: 0,
            syncs: BTreeMap::new(),
            markers: BTreeMap::new(),
            is_refusing: false,
        }
    }
}

impl World {
    /// Applies a line. Returns its output.
    pub fn apply(&mut self, text: &str, coverage: &mut Coverage) -> Vec<String> {
        let line = Line::parse(text);
        let mut out = Vec::new();
        match line.verb {
            "config" => line.options().for_each(|(key, value)| self.configure(key, value)),
            "delete-topic" => drop(self.around.topics.deleted.insert(line.words[0].to_owned())),
            "no-producer-ids" => self.around.ids.left = 0,
            "epoch" => self.put_epoch(&line),
            "refuse" => self.is_refusing = true,
            // The next record gets the position of the last record, as in the same block.
            "same-block" => self.around.position -= 1,
            "wall" => self.around.wall += line.words[0].parse::<i64>().unwrap(),
            _ => {
                self.coordinator(&mut out);
                self.cover(&line, coverage);
                self.event(&line, &mut out);
                self.expire(&mut out);
                self.audit(text);
                out.push(self.deadline());
            }
        }
        out
    }

    fn event(&mut self, line: &Line<'_>, out: &mut Vec<String>) {
        let slot = || line.words[0].parse::<Slot>().unwrap();
        match line.verb {
            "producer-ids" => {
                self.around.ids.left = line.words[0].parse().unwrap();
                self.coordinator.as_mut().unwrap().producer_ids_arrived();
            }
            "advance" => self.advance(line.words[0].parse().unwrap(), out),
            "reload" => self.reload(line, out),
            "ask" => {
                self.questions += 1;
                let question = line.question(self.questions);
                self.receive(FromSlot::Question(question), out);
            }
            "report" => self.receive(FromSlot::Report(line.report(self.epoch)), out),
            "synced" => {
                let is_whole = !line.has("offline");
                for (stamp, partitions) in self.syncs.remove(&slot()).unwrap_or_default() {
                    self.receive(FromSlot::Synced { stamp, partitions, is_whole }, out);
                }
            }
            "marked" => {
                let (is_synced, is_whole) = (line.has("durable"), !line.has("offline"));
                for (stamp, partitions) in self.markers.remove(&slot()).unwrap_or_default() {
                    self.receive(FromSlot::Marked { stamp, partitions, is_synced, is_whole }, out);
                }
            }
            _ => self.request(line, out),
        }
    }

    fn configure(&mut self, key: &str, value: &str) {
        let config = &mut self.config;
        match key {
            "add.partitions.to.txn.retry.backoff.max.ms" => {
                config.retry_backoff_max_ms = value.parse().unwrap();
            }
            "transaction.two.phase.commit.enable" => {
                config.two_phase_commit_enable = value.parse().unwrap();
            }
            "max.ids" => self.around.admission.0 = value.parse().unwrap(),
            key => panic!("{key}"),
        }
    }

    fn cover(&mut self, line: &Line<'_>, coverage: &mut Coverage) {
        let is_old = line.option("v") == Some("4");
        let event = match line.verb {
            "init" if line.producer().is_some() => "init given",
            "ask" if line.has("verify") => "ask verify",
            "end" if line.has("commit") && is_old => "end commit v4",
            "end" if line.has("commit") => "end commit",
            "end" if is_old => "end abort v4",
            "end" => "end abort",
            verb => verb,
        };
        let id = match line.verb {
            "ask" => line.words.get(1).copied(),
            "report" | "reload" => None,
            _ => Some(line.id()),
        };
        for state in self.states(id) {
            coverage.exercise(state, event);
        }
    }

    /// The state of an id, or the states of all ids.
    fn states(&self, id: Option<&str>) -> Vec<State> {
        let records = self.coordinator.as_ref().unwrap().durable_records();
        let of_id =
            records.into_iter().filter(|it| id.is_none_or(|id| it.key.transactional_id == id));
        let statuses = of_id.filter_map(|it| Some(it.value?.transaction_status));
        statuses
            .map(|it| State::ALL.into_iter().find(|state| *state as i8 == it).unwrap())
            .collect()
    }

    /// For a line like `epoch t 1000 32766`, adds an idle id with this epoch to the log.
    fn put_epoch(&mut self, line: &Line<'_>) {
        let value = TransactionLogValue {
            producer_id: line.words[1].parse().unwrap(),
            producer_epoch: line.words[2].parse().unwrap(),
            transaction_timeout_ms: 60_000,
            previous_producer_id: line.words[1].parse().unwrap(),
            transaction_start_timestamp_ms: -1,
            ..Default::default()
        };
        let key = TransactionLogKey { transactional_id: line.words[0].to_owned().into() };
        self.log.push(record_bytes(&TransactionRecord { key, value: Some(value) }));
    }

    fn request(&mut self, line: &Line<'_>, out: &mut Vec<String>) {
        let (api_version, request) =
            line.request().unwrap_or_else(|| panic!("unknown verb {}", line.verb));
        self.requests += 1;
        let id = RequestId { connection: 1, sequence: self.requests };
        self.waiting.insert(id, format!("{} {}", line.verb, line.words.first().unwrap_or(&"all")));
        let caller = Caller { request: id, api_version, client_host: "/1.2.3.4" };
        let output = self.call(|it, context| it.handle(context, caller, request));
        self.settle(output, out);
    }

    fn receive(&mut self, message: FromSlot, out: &mut Vec<String>) {
        let output = self.call(|it, context| it.receive(context, message));
        self.settle(output, out);
    }

    fn advance(&mut self, ms: i64, out: &mut Vec<String>) {
        let until = self.around.now + ms;
        loop {
            let next = self.coordinator.as_ref().unwrap().next_deadline();
            let Some(at) = next.filter(|at| *at <= until) else { break };
            let at = self.around.now.max(at);
            self.around.wall += at - self.around.now;
            self.around.now = at;
            self.expire(out);
        }
        self.around.wall += until - self.around.now;
        self.around.now = until;
    }

    fn expire(&mut self, out: &mut Vec<String>) {
        while let Some((at, reason)) = self.coordinator.as_ref().unwrap().next_timer() {
            if at > self.around.now {
                break;
            }
            let before = out.len();
            let output = self.call(Coordinator::expire);
            self.settle(output, out);
            if out.len() > before {
                out.insert(before, format!("at {at} {reason:?}"));
            }
        }
    }

    fn settle(&mut self, output: Output, out: &mut Vec<String>) {
        if std::mem::take(&mut self.is_refusing) {
            out.push("  refused by the log".to_owned());
            return self.coordinator.as_mut().unwrap().not_written(&output.records);
        }
        let position = self.around.position + u64::from(!output.records.is_empty());
        self.around.position = position;
        for record in &output.records {
            out.push(print::record(record));
            let bytes = record_bytes(record);
            self.coordinator.as_mut().unwrap().replay(&read(&bytes), position);
            self.log.push(bytes);
        }
        let waits = |at: u64| {
            let waits = at == position && !output.records.is_empty();
            if waits { "; when written" } else { "" }
        };
        for message in &output.messages {
            out.push(print::message(message, waits(message.visible_at)));
            match &message.body {
                ToSlotBody::Sync(it) => {
                    let of_slot = self.syncs.entry(message.slot).or_default();
                    of_slot.push((it.stamp, it.partitions.clone()));
                }
                ToSlotBody::Marker(it) => {
                    let of_slot = self.markers.entry(message.slot).or_default();
                    of_slot.push((it.stamp, it.partitions.clone()));
                }
                ToSlotBody::ReportWanted { .. }
                | ToSlotBody::Reported(_)
                | ToSlotBody::Verdict(_) => {}
            }
        }
        for answer in output.answers {
            let label = self.waiting.remove(&answer.request).unwrap();
            let waits = waits(answer.visible_at);
            out.push(format!("  {label}: {}{waits}", print::response(&answer.response)));
        }
    }

    fn reload(&mut self, line: &Line<'_>, out: &mut Vec<String>) {
        self.epoch += 1;
        let mut coordinator = Coordinator::new(self.config.clone(), self.epoch);
        for bytes in &self.log {
            coordinator.replay(&read(bytes), self.around.position);
        }
        if line.has("snapshot") {
            let snapshot = Snapshot::of(&coordinator, self.around.position);
            coordinator = Coordinator::new(self.config.clone(), self.epoch);
            snapshot.open(&mut coordinator);
        }
        self.coordinator = Some(coordinator);
        self.waiting.clear();
        (self.syncs, self.markers) = (BTreeMap::new(), BTreeMap::new());
        let output = self.call(Coordinator::loaded);
        if line.has("silent") {
            return self.settle(output, out);
        }
        for slot in 0..SLOTS {
            let report = Report {
                slot,
                session: 1,
                coordinator_epoch: self.epoch,
                number: 0,
                may_have_lost_writes: false,
                is_whole: true,
                open: [].into(),
            };
            let before = out.len();
            self.receive(FromSlot::Report(report), out);
            out.remove(before);
        }
    }

    /// Loads the coordinator at the first event. All slots then report.
    fn coordinator(&mut self, out: &mut Vec<String>) {
        if self.coordinator.is_none() {
            self.reload(&Line::parse("reload"), out);
        }
    }

    /// Checks that each id has the state that its record produces, and that the indexes of ids are
    /// right.
    fn audit(&self, event: &str) {
        let coordinator = self.coordinator.as_ref().unwrap();
        let mut last = None;
        while let Some((id, is_same)) = coordinator.audit_after(last.as_deref()) {
            assert!(is_same, "after {event:?}: {id:?} is not what its record makes");
            last = Some(id);
        }
    }

    fn deadline(&self) -> String {
        match self.coordinator.as_ref().unwrap().next_timer() {
            Some((at, reason)) => format!("next {at} {reason:?}"),
            None => "next never".to_owned(),
        }
    }

    fn call<T>(
        &mut self,
        act: impl FnOnce(&mut Coordinator, &mut muster_transactions::Context<'_>) -> T,
    ) -> T {
        self.around.call(self.coordinator.as_mut().unwrap(), act)
    }
}
