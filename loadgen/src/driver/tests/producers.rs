//! A whole core with a producer, against a server that acts as a cluster with transactions.

use std::collections::BTreeMap;
use std::sync::Mutex;

use kafka_protocol::messages::api_versions_response::FinalizedFeatureKey;
use kafka_protocol::messages::metadata_response::{
    MetadataResponsePartition, MetadataResponseTopic,
};
use kafka_protocol::messages::produce_response::{PartitionProduceResponse, TopicProduceResponse};
use kafka_protocol::messages::{
    EndTxnResponse, InitProducerIdResponse, ProduceResponse, ProducerId, TopicName,
};

use super::members::{api_versions, coordinator_at, member, metadata};
use super::*;
use crate::topics::Topic;

const PRODUCE: i16 = 0;
const METADATA: i16 = 3;
const FIND_COORDINATOR: i16 = 10;
const API_VERSIONS: i16 = 18;
const INIT_PRODUCER_ID: i16 = 22;
const END_TXN: i16 = 26;

/// The number of requests of each API that arrived.
type Asked = Arc<Mutex<BTreeMap<i16, u32>>>;

/// A cluster of one broker and one topic. `answers` says whether the nth request of an API is
/// answered. If not, the connection is closed.
fn cluster(answers: impl Fn(i16, u32) -> bool + Send + Sync + 'static) -> (String, Asked) {
    let asked = Asked::default();
    let counts = Arc::clone(&asked);
    let server = server(move |mut stream| {
        let port = i32::from(stream.local_addr().unwrap().port());
        while let Some(frame) = receive(&mut stream) {
            let key = i16::from_be_bytes(frame[..2].try_into().unwrap());
            let nth = {
                let mut counts = counts.lock().unwrap();
                let count = counts.entry(key).or_default();
                *count += 1;
                *count
            };
            if !answers(key, nth) {
                return;
            }
            let mut body = frame[4..8].to_vec();
            answer(key, port, &mut body);
            if stream.write_all(&framed(&body)).is_err() {
                return;
            }
        }
    });
    (server, asked)
}

/// Writes an answer. Flexible versions have tagged fields in the header of the answer. ApiVersions
/// never has them there, and version 4 of Metadata is not flexible.
fn answer(key: i16, port: i32, body: &mut Vec<u8>) {
    let id = ProducerId(7);
    let flexible = !matches!(key, API_VERSIONS | METADATA);
    body.extend(flexible.then_some(0));
    let written = match key {
        API_VERSIONS => with_transactions().encode(body, 3),
        METADATA => metadata(port).with_topics(vec![topic()]).encode(body, 4),
        FIND_COORDINATOR => coordinator_at(port).encode(body, 4),
        INIT_PRODUCER_ID => InitProducerIdResponse::default().with_producer_id(id).encode(body, 4),
        PRODUCE => produced().encode(body, 12),
        END_TXN => EndTxnResponse::default().with_producer_id(id).encode(body, 5),
        other => panic!("API {other}"),
    };
    written.unwrap();
}

fn with_transactions() -> ApiVersionsResponse {
    let api = |(key, max)| {
        ApiVersion::default().with_api_key(key).with_min_version(0).with_max_version(max)
    };
    let feature = FinalizedFeatureKey::default()
        .with_name(StrBytes::from_static_str("transaction.version"))
        .with_max_version_level(2)
        .with_min_version_level(0);
    let mut answer = api_versions();
    answer.api_keys.extend([(PRODUCE, 12), (INIT_PRODUCER_ID, 4), (END_TXN, 5)].map(api));
    answer.with_finalized_features(vec![feature])
}

fn topic() -> MetadataResponseTopic {
    MetadataResponseTopic::default()
        .with_name(Some(TopicName(StrBytes::from_static_str("t"))))
        .with_partitions(vec![MetadataResponsePartition::default()])
}

fn produced() -> ProduceResponse {
    let topic = TopicProduceResponse::default()
        .with_name(TopicName(StrBytes::from_static_str("t")))
        .with_partition_responses(vec![PartitionProduceResponse::default()]);
    ProduceResponse::default().with_responses(vec![topic])
}

fn producer() -> MemberPlan {
    let plan = ProducerPlan {
        partitions: [Partition { topic: TopicIndex(0), number: 0 }].into(),
        delivery: Delivery::Transactions(TransactionPlan {
            version: TransactionVersion::Two,
            timeout: Duration::from_secs(60),
            offsets: 0,
            aborts: 0,
        }),
        records: 1,
        record_size: 100,
        began: Duration::ZERO,
        is_read: false,
    };
    let member = member();
    let group = GroupPlan { protocol: Protocol::Producer(plan), ..(*member.group).clone() };
    let load = Load { rate: None, in_flight: 1, partitions: 0 };
    let workload = Workload { produce: Some(load), ..Workload::default() };
    MemberPlan { group: Arc::new(group), workload, ..member }
}

fn started(server: &str) -> Driver {
    let mut driver = start(target(server)).unwrap();
    assert_eq!(driver.cluster().versions.transactions, 2);
    let mut topics = Topics::default();
    let (name, id) = ("t".into(), muster_codec::Uuid::ZERO);
    topics.learn(Topic { name, id, partitions: 1 });
    driver.send(0, Command::Topics(Arc::new(topics)));
    let at = driver.now();
    driver.send(0, Command::Start { at, member: producer() });
    driver
}

/// A run, and the counts of all its reports.
struct Run {
    driver: Driver,
    events: Vec<EventKind>,
    answered: BTreeMap<RoundTrip, u64>,
    unanswered: BTreeMap<RoundTrip, u64>,
}

impl Run {
    fn of(server: &str) -> Self {
        let (driver, events) = (started(server), Vec::new());
        Self { driver, events, answered: BTreeMap::new(), unanswered: BTreeMap::new() }
    }

    /// Receives reports until this event has come `count` times.
    fn until(&mut self, event: &EventKind, count: usize) {
        while self.count(event) < count {
            assert!(!self.report(), "{event:?} did not come");
        }
    }

    fn count(&self, event: &EventKind) -> usize {
        self.events.iter().filter(|kind| *kind == event).count()
    }

    fn stop(&mut self, how: Stop) {
        let at = self.driver.now();
        self.driver.send(0, Command::Stop { at, member: MemberIndex(0), how });
        self.until(&EventKind::Stopped { how }, 1);
        self.driver.send(0, Command::End);
        while !self.report() {}
    }

    /// Takes the next report, which has to come within ten seconds. Returns whether it is the last
    /// one.
    fn report(&mut self) -> bool {
        let report = self.driver.receive(Duration::from_secs(10)).unwrap();
        self.events.extend(report.events.into_iter().map(|event| event.kind));
        for (kind, times) in report.sample.uncorrected {
            *self.answered.entry(kind).or_default() += times.len();
        }
        for (kind, count) in report.sample.unanswered {
            *self.unanswered.entry(kind).or_default() += count;
        }
        report.ended.is_some()
    }
}

const COMMITTED: EventKind = EventKind::TransactionEnded { number: 0, committed: true };

#[test]
fn transactions_are_measured_request_by_request_and_as_a_whole() {
    // From the 11th batch on the server does not answer.
    let (server, asked) = cluster(|key, nth| key != PRODUCE || nth <= 10);
    let mut run = Run::of(&server);
    run.until(&EventKind::Disconnected, 1);
    run.stop(Stop::Crash);
    assert_eq!(run.count(&COMMITTED), 10);
    for kind in [RoundTrip::Transaction, RoundTrip::Produce, RoundTrip::EndTxn] {
        assert_eq!(run.answered[&kind], 10, "{kind:?}");
    }
    assert_eq!(run.answered[&RoundTrip::InitProducerId], 1);
    assert_eq!(run.unanswered[&RoundTrip::Transaction], 1, "the one that the crash left");
    assert_eq!(asked.lock().unwrap()[&END_TXN], 10);
}

#[test]
fn a_lost_answer_delays_a_transaction_and_does_not_end_it() {
    let (server, asked) = cluster(|key, nth| (key, nth) != (END_TXN, 3));
    let mut run = Run::of(&server);
    run.until(&COMMITTED, 5);
    run.stop(Stop::Leave);
    let asked = asked.lock().unwrap();
    assert_eq!(asked[&PRODUCE] + 1, asked[&END_TXN], "EndTxn was repeated, and no batch");
    assert_eq!(run.unanswered, [(RoundTrip::EndTxn, 1)].into());
    assert_eq!(run.answered[&RoundTrip::Transaction], run.count(&COMMITTED) as u64);
}
