//! The coordinator with its log, the slots, the clients, and the network between them.

use crate::client::{Client, Stage, Transaction, Wanted};
use crate::common::snapshot::Snapshots;
use crate::common::{Around, RecordBytes, read, record_bytes};
use crate::fault::Fault;
use crate::slots::{Batch, Produced, Slot, TOPIC};
use muster_codec::record_batch::TransactionOutcome;
use muster_transactions::message::{
    FromSlot, Producer, Question, QuestionKind, ToSlot, ToSlotBody,
};
use muster_transactions::{
    Answer, Caller, Config, Context, Coordinator, Output, PartitionSet, RequestId,
};
use std::collections::BTreeMap;

pub const SLOTS: u32 = 2;
const CLIENTS: usize = 5;

#[derive(Clone)]
enum Message {
    To(ToSlot),
    From(FromSlot),
}

pub struct World {
    rng: fastrand::Rng,
    around: Around,
    coordinator: Coordinator,
    epoch: i32,
    /// The log: records with their positions. Those up to the position `flushed` are durable.
    log: Vec<(RecordBytes, u64)>,
    flushed: u64,
    /// Messages that wait for the flush of a position.
    held: Vec<(u64, Message)>,
    held_answers: Vec<Answer>,
    network: Vec<Message>,
    /// Copies of messages that arrive much later.
    late: Vec<Message>,
    slots: Vec<Slot>,
    clients: Vec<Client>,
    transactions: Vec<Transaction>,
    requests: u64,
    questions: u64,
    is_faulty: bool,
    snapshots: Snapshots,
    /// Whether the machine has lost its memory and the coordinator has not yet aborted all
    /// transactions that this affects.
    may_have_lost_writes: bool,
    pub crashes: u64,
    fault: Option<Fault>,
}

impl World {
    pub fn new(seed: u64, fault: Option<Fault>) -> Self {
        let mut world = Self {
            rng: fastrand::Rng::with_seed(seed),
            around: Around::new(SLOTS),
            coordinator: Coordinator::new(Config::default(), 0),
            epoch: 0,
            log: Vec::new(),
            flushed: 0,
            held: Vec::new(),
            held_answers: Vec::new(),
            network: Vec::new(),
            late: Vec::new(),
            slots: (0..SLOTS).map(|number| Slot::new(number, fault)).collect(),
            clients: (0..CLIENTS).map(Client::new).collect(),
            transactions: Vec::new(),
            requests: 0,
            questions: 0,
            is_faulty: true,
            snapshots: Snapshots::default(),
            may_have_lost_writes: false,
            crashes: 0,
            fault,
        };
        world.call(Coordinator::loaded);
        world
    }

    pub fn step(&mut self) {
        if !self.late.is_empty() && self.rng.u32(0..10) == 0 {
            let at = self.rng.usize(0..self.late.len());
            self.network.push(self.late.swap_remove(at));
        }
        match self.rng.u32(0..100) {
            0..40 => self.deliver(),
            40..60 => self.flush(),
            60..95 => self.client_acts(),
            95..98 => {
                let ms = self.rng.i64(1..2_000);
                self.pass_time(ms);
            }
            98..99 if self.rng.u32(0..4) == 0 => self.crash(),
            _ => self.expire(),
        }
        self.expire_due();
        match self.rng.u32(0..50) {
            0 => self.check_replay(),
            1..4 => self.snapshots.write(&self.coordinator, self.around.position),
            _ => {}
        }
    }

    /// Ends all transactions without further faults. A transaction whose partitions are all served
    /// must end by itself. The others must end once their offline partitions are served again.
    pub fn come_to_rest(&mut self) {
        self.is_faulty = false;
        self.end_all();
        for slot in &mut self.slots {
            assert!(!slot.has_open(), "a transaction waits for a partition that is offline");
            slot.crash(false, self.may_have_lost_writes, false, &mut self.rng);
            self.network.push(Message::From(slot.report()));
        }
        self.end_all();
    }

    fn end_all(&mut self) {
        for _ in 0..200 {
            self.pass_time(1_000);
            self.expire_due();
            while !self.network.is_empty() || self.flushed < self.around.position {
                self.flush();
                self.deliver();
                self.expire_due();
            }
        }
    }

    /// Delivers a message. It may be lost or repeated.
    fn deliver(&mut self) {
        if self.network.is_empty() {
            return;
        }
        let at = self.rng.usize(0..self.network.len());
        let fate = if self.is_faulty { self.rng.u32(0..10) } else { 9 };
        let message = match fate {
            0 => return drop(self.network.swap_remove(at)),
            1 => {
                self.late.push(self.network[at].clone());
                self.network.swap_remove(at)
            }
            _ => self.network.swap_remove(at),
        };
        match message {
            Message::From(message) => self.call(|it, context| it.receive(context, message)),
            Message::To(message) => {
                self.check_marker(&message);
                let (answer, settled) = self.slots[message.slot as usize].receive(message);
                self.network.extend(answer.map(Message::From));
                settled.into_iter().for_each(|(number, is_yes)| self.settled(number, is_yes));
            }
        }
    }

    /// No marker may arrive before its decision is durable.
    fn check_marker(&self, message: &ToSlot) {
        let ToSlotBody::Marker(marker) = &message.body else { return };
        let durable = self.log.iter().take_while(|(_, at)| *at <= self.flushed);
        let is_decided = |bytes: &RecordBytes| {
            let record = read(bytes);
            let prepare = match marker.outcome {
                TransactionOutcome::Commit => 2,
                TransactionOutcome::Abort => 3,
            };
            record.value.is_some_and(|it| {
                let producer = Producer { id: it.producer_id, epoch: it.producer_epoch };
                it.transaction_status == prepare && producer == marker.producer
            })
        };
        let decided = durable.filter(|(bytes, _)| is_decided(bytes)).count();
        assert!(decided > 0, "{marker:?} before its decision");
    }

    fn flush(&mut self) {
        self.flushed = self.around.position;
        let settled_at = self.coordinator.lost_writes_settled_at();
        self.may_have_lost_writes &= settled_at.is_none_or(|at| at > self.flushed);
        let held = std::mem::take(&mut self.held);
        self.network.extend(held.into_iter().map(|(_, message)| message));
        for answer in std::mem::take(&mut self.held_answers) {
            self.answered(&answer);
        }
    }

    /// Lets time pass. Slots repeat a report until it is answered.
    fn pass_time(&mut self, ms: i64) {
        self.around.now += ms;
        self.around.wall += ms;
        let unanswered = self.slots.iter_mut().filter(|slot| slot.is_unanswered());
        self.network.extend(unanswered.map(|slot| Message::From(slot.report())));
    }

    fn expire_due(&mut self) {
        while self.coordinator.next_deadline().is_some_and(|at| at <= self.around.now) {
            self.expire();
        }
    }

    fn expire(&mut self) {
        self.call(Coordinator::expire);
    }

    /// Ends the process or the machine, or loads only the coordinator or one slot again.
    fn crash(&mut self) {
        self.crashes += 1;
        let is_machine = self.rng.bool();
        let kind = self.rng.u32(0..3);
        if kind != 1 {
            self.load_coordinator();
        }
        if kind != 0 {
            let loses_memory = kind == 2 && is_machine;
            self.may_have_lost_writes |= loses_memory;
            let only = (kind == 1).then(|| self.rng.usize(0..self.slots.len()));
            for (number, slot) in self.slots.iter_mut().enumerate() {
                if only.is_none_or(|only| only == number) {
                    let (lost, goes_offline) = (self.may_have_lost_writes, self.rng.bool());
                    slot.crash(loses_memory, lost, goes_offline, &mut self.rng);
                    self.network.push(Message::From(slot.report()));
                }
            }
            self.clients_lose_questions();
        }
    }

    fn clients_lose_questions(&mut self) {
        for client in &mut self.clients {
            if matches!(client.state, Stage::Asks(..)) {
                client.begin_again();
            }
        }
    }

    /// Loads the coordinator. Records that were not flushed are lost. Messages that were sent may
    /// still arrive.
    fn load_coordinator(&mut self) {
        self.epoch += 1;
        self.log.retain(|(_, at)| *at <= self.flushed);
        self.around.position = self.flushed;
        (self.held, self.held_answers) = (Vec::new(), Vec::new());
        self.coordinator = Coordinator::new(Config::default(), self.epoch);
        let from = self.snapshots.open_last(self.flushed, &mut self.coordinator);
        for (bytes, at) in self.log.iter().filter(|(_, at)| *at > from) {
            self.coordinator.replay(&read(bytes), *at);
        }
        for client in &mut self.clients {
            if matches!(client.state, Stage::Waits(..)) {
                client.begin_again();
            }
        }
        self.call(Coordinator::loaded);
    }

    fn client_acts(&mut self) {
        let who = self.rng.usize(0..self.clients.len());
        let now = self.around.now;
        let client = &mut self.clients[who];
        match client.state {
            Stage::New => self.request(who, Wanted::Begin),
            Stage::Ready => self.next_act(who),
            Stage::Waits(..) | Stage::Asks(..) if now > client.gives_up_at => client.begin_again(),
            Stage::Waits(..) | Stage::Asks(..) => {}
        }
    }

    fn next_act(&mut self, who: usize) {
        let partition = self.rng.i32(0..4);
        let client = &mut self.clients[who];
        if client.transaction.is_none() {
            client.transaction = Some(self.transactions.len());
            self.transactions.push(Transaction::default());
        }
        let is_added = client.has_epochs || client.added.contains(&partition);
        match self.rng.u32(0..10) {
            0 => client.begin_again(),
            1 => self.request(who, Wanted::End { is_commit: false }),
            2 | 3 if client.has_epochs || !client.added.is_empty() => {
                self.request(who, Wanted::End { is_commit: true });
            }
            _ if is_added => self.produce(who, partition),
            _ => self.request(who, Wanted::Add(partition)),
        }
    }

    fn produce(&mut self, who: usize, partition: i32) {
        self.questions += 1;
        let number = self.questions;
        let client = &mut self.clients[who];
        let (producer, transaction) = (client.producer, client.transaction.unwrap());
        let slot = &mut self.slots[partition as usize % SLOTS as usize];
        match slot.produce(partition, producer, transaction, number) {
            Produced::Appended => self.transactions[transaction].acknowledged.push(partition),
            Produced::Refused => client.begin_again(),
            Produced::Asks(number) => {
                client.state = Stage::Asks(number, partition);
                client.gives_up_at = self.around.now + 3_000;
                let kind = if client.has_epochs { QuestionKind::Add } else { QuestionKind::Verify };
                let question = Question {
                    slot: slot.number,
                    number,
                    transactional_id: client.id.clone(),
                    producer,
                    partitions: PartitionSet::of(TOPIC, partition),
                    kind,
                };
                self.network.push(Message::From(FromSlot::Question(question)));
            }
        }
    }

    /// Notes whether a partition has appended the batch that waited for the answer to the question
    /// `number`.
    fn settled(&mut self, number: u64, is_yes: bool) {
        for client in &mut self.clients {
            match client.state {
                Stage::Asks(asked, partition) if asked == number && is_yes => {
                    client.state = Stage::Ready;
                    let transaction = &mut self.transactions[client.transaction.unwrap()];
                    transaction.acknowledged.push(partition);
                }
                Stage::Asks(asked, _) if asked == number => client.begin_again(),
                Stage::Asks(..) | Stage::New | Stage::Ready | Stage::Waits(..) => {}
            }
        }
    }

    fn request(&mut self, who: usize, wanted: Wanted) {
        self.requests += 1;
        let id = RequestId { connection: who as u64, sequence: self.requests };
        let client = &mut self.clients[who];
        client.state = Stage::Waits(id, wanted);
        client.gives_up_at = self.around.now + 3_000;
        let (api_version, request) = client.as_request(wanted);
        let caller = Caller { request: id, api_version, client_host: "/1.2.3.4" };
        self.call(|it, context| it.handle(context, caller, request));
    }

    fn answered(&mut self, answer: &Answer) {
        assert!(answer.visible_at <= self.flushed);
        let client = &mut self.clients[answer.request.connection as usize];
        let Stage::Waits(id, wanted) = client.state else { return };
        if id != answer.request {
            return;
        }
        let Some(producer) = client.next_producer(&answer.response) else {
            return client.begin_again();
        };
        (client.state, client.producer) = (Stage::Ready, producer);
        match wanted {
            Wanted::Begin => {}
            Wanted::Add(partition) => drop(client.added.insert(partition)),
            Wanted::End { is_commit } => {
                self.transactions[client.transaction.unwrap()].ended = Some(is_commit);
                client.transaction = None;
                client.added.clear();
            }
        }
    }

    fn call(&mut self, act: impl FnOnce(&mut Coordinator, &mut Context<'_>) -> Output) {
        let output = self.around.call(&mut self.coordinator, act);
        self.around.position += u64::from(!output.records.is_empty());
        let position = self.around.position;
        for record in &output.records {
            let bytes = record_bytes(record);
            self.coordinator.replay(&read(&bytes), position);
            self.log.push((bytes, position));
        }
        for message in output.messages {
            let is_early = self.fault == Some(Fault::EarlyMarker);
            if message.visible_at > self.flushed && !is_early {
                self.held.push((message.visible_at, Message::To(message)));
            } else {
                self.network.push(Message::To(message));
            }
        }
        self.held_answers.extend(output.answers);
        if self.flushed == position {
            self.flush();
        }
    }

    /// The records must replay to the live state.
    fn check_replay(&mut self) {
        let mut replica = Coordinator::new(Config::default(), 0);
        for (bytes, at) in &self.log {
            replica.replay(&read(bytes), *at);
        }
        assert_eq!(self.coordinator.durable_records(), replica.durable_records());
    }

    /// Checks the state at rest. No transaction may be open. All records of a transaction must have
    /// the same outcome, and it must be the one that was acknowledged to the client. If that is a
    /// commit, all acknowledged records must be there.
    pub fn check(&mut self) {
        self.check_replay();
        let mut outcomes: BTreeMap<usize, Vec<(i32, TransactionOutcome)>> = BTreeMap::new();
        for (number, partition) in self.slots.iter().flat_map(|slot| &slot.partitions) {
            let end = partition.log.len() as i64;
            let stable = partition.transactions.last_stable_offset(end, 0);
            assert_eq!(
                (stable, partition.transactions.open().collect::<Vec<_>>()),
                (end, Vec::new()),
                "partition {number} has open transactions: {:#?}",
                self.coordinator
            );
            for (at, batch) in partition.log.iter().enumerate() {
                let Batch::Data { producer, transaction } = batch else { continue };
                let outcome = outcome(&partition.log[at..], producer.id);
                outcomes.entry(*transaction).or_default().push((*number, outcome));
                let is_aborted = partition.transactions.aborted(at as i64, at as i64 + 1);
                let is_aborted = is_aborted.filter(|it| it.producer_id == producer.id).count() == 1;
                assert_eq!(is_aborted, outcome == TransactionOutcome::Abort);
            }
        }
        for (number, transaction) in self.transactions.iter().enumerate() {
            check_transaction(number, transaction, outcomes.get(&number));
        }
    }

    pub fn commits(&self) -> usize {
        self.transactions.iter().filter(|it| it.ended == Some(true)).count()
    }

    pub fn aborts(&self) -> usize {
        self.transactions.iter().filter(|it| it.ended == Some(false)).count()
    }
}

/// The outcome of a producer's batch at the start of `log`. The producer's next marker decides it.
fn outcome(log: &[Batch], producer_id: i64) -> TransactionOutcome {
    let ends = log.iter().filter_map(|batch| match batch {
        Batch::Marker(end) if end.producer.id == producer_id => Some(end.outcome),
        Batch::Marker(_) | Batch::Data { .. } => None,
    });
    ends.into_iter().next().expect("each transaction has ended")
}

fn check_transaction(
    number: usize,
    transaction: &Transaction,
    outcomes: Option<&Vec<(i32, TransactionOutcome)>>,
) {
    let all = outcomes.map_or(&[][..], |it| it);
    let is_one = all.iter().all(|(_, it)| *it == all[0].1);
    assert!(is_one, "transaction {number} is torn: {all:?}");
    let Some(is_commit) = transaction.ended else { return };
    let expected = if is_commit { TransactionOutcome::Commit } else { TransactionOutcome::Abort };
    assert!(all.iter().all(|(_, it)| *it == expected), "{number}: {all:?} is not {expected:?}");
    if is_commit {
        let mut found: Vec<i32> = all.iter().map(|(partition, _)| *partition).collect();
        let mut acknowledged = transaction.acknowledged.clone();
        found.sort_unstable();
        acknowledged.sort_unstable();
        assert_eq!(found, acknowledged, "transaction {number} has lost records");
    }
}
