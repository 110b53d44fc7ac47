//! The kinds of requests, each with the server state that it needs. The versions are those that
//! Kafka's Java clients send.

mod groups;
mod records;

use crate::clients::{COUNT, Clients};
use clap::ValueEnum;
use muster_codec::messages::{CreatableTopic, CreateTopicsRequest};
use muster_codec::{Response, Uuid};

/// A kind of request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// OffsetCommit of one partition.
    #[value(name = "commit-1")]
    Commit1,
    /// OffsetCommit of 32 partitions of a topic.
    #[value(name = "commit-32")]
    Commit32,
    HeartbeatClassic,
    HeartbeatConsumer,
    HeartbeatShare,
    HeartbeatStreams,
    /// Produce of one record.
    Produce,
    /// Fetch of one record.
    Fetch,
    /// No request: a turn with nothing to do.
    Idle,
}

/// A sequence of requests of one kind, sent by the clients in turn.
pub(crate) trait Requests {
    /// Sends a request and checks its answer.
    fn send(&mut self, clients: &mut Clients, number: u32);
}

impl Kind {
    pub(crate) fn print_all() {
        for kind in Self::value_variants() {
            println!("{}", kind.to_possible_value().expect("a name").get_name());
        }
    }

    /// Brings the server into the state in which clients usually send such requests.
    pub(crate) fn prepare(self, clients: &mut Clients) -> Box<dyn Requests> {
        match self {
            Self::Commit1 => Box::new(groups::Commits::of_partitions(clients, 1)),
            Self::Commit32 => Box::new(groups::Commits::of_partitions(clients, 32)),
            Self::HeartbeatClassic => Box::new(groups::Classic::new(clients)),
            Self::HeartbeatConsumer => Box::new(groups::Modern::<groups::Consumer>::new(clients)),
            Self::HeartbeatShare => Box::new(groups::Modern::<groups::Share>::new(clients)),
            Self::HeartbeatStreams => Box::new(groups::Modern::<groups::Streams>::new(clients)),
            Self::Produce => Box::new(records::Produces::new(clients)),
            Self::Fetch => Box::new(records::Fetches::new(clients)),
            Self::Idle => Box::new(Nothing::new(clients)),
        }
    }
}

/// Turns without any request.
struct Nothing;

impl Nothing {
    fn new(clients: &mut Clients) -> Self {
        groups::Classic::new(clients);
        Self
    }
}

impl Requests for Nothing {
    fn send(&mut self, clients: &mut Clients, _: u32) {
        clients.idle();
    }
}

/// The topic that all requests use.
const TOPIC: &str = "orders";

/// Creates the topic, with one partition per client, and returns its id.
fn create_topic(clients: &mut Clients) -> Uuid {
    let topic = CreatableTopic {
        name: TOPIC.into(),
        num_partitions: COUNT as i32,
        replication_factor: -1,
        ..Default::default()
    };
    let request =
        CreateTopicsRequest { topics: vec![topic], timeout_ms: 1_000, ..Default::default() };
    let Response::CreateTopics(body) = clients.ask(0, 7, request) else { unreachable!() };
    assert_eq!(body.topics[0].error_code, 0, "{body:?}");
    body.topics[0].topic_id
}

/// The client that sends the request of this number.
fn client_of(number: u32) -> u32 {
    number % COUNT
}
