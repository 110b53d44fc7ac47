//! Incidents as an operator sees them. For each, the page's API, the metrics and the log name its
//! cause. With `MUSTER_INCIDENTS=FILE`, the test writes what they said to FILE
//! (docs/incidents.md).

mod notes;

use self::notes::Notes;
use crate::snapshots;
use crate::support::http::{api, api_until, get, metric_until};
use crate::support::power::PowerSupply;
use crate::support::{Client, PATIENCE, Server, create_topic, free_ports, produce_to};
use muster_codec::messages::*;
use muster_codec::{ErrorCode, Response, Str, Uuid};
use serde_json::{Value, json};
use std::io::Write;
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

const CONFIGS: [&str; 6] = [
    "group.consumer.assignment.interval.ms=0",
    "group.consumer.min.session.timeout.ms=3000",
    "group.consumer.session.timeout.ms=3000",
    "group.consumer.min.heartbeat.interval.ms=500",
    "group.consumer.heartbeat.interval.ms=500",
    "admin.lag.interval.ms=100",
];

/// A server with one shard, and the port of its admin listener.
struct Site {
    server: Server,
    admin: u16,
}

/// A member of a consumer group, which reports all assigned partitions as its own.
struct Member {
    client: Client,
    group: &'static str,
    id: String,
    instance_id: Option<&'static str>,
    expression: Option<&'static str>,
    epoch: i32,
    owned: Vec<(Uuid, Vec<i32>)>,
}

impl Site {
    fn new(data: &Path) -> Self {
        let admin = free_ports(1);
        let listener = format!("admin.listener=127.0.0.1:{admin}");
        let configs: Vec<&str> = CONFIGS.iter().copied().chain([&*listener]).collect();
        Self { server: Server::start(data, 1, &configs), admin }
    }

    /// Waits until the value of a metric satisfies `is_wanted`. Returns the metric's line.
    fn metric(&self, beginning: &str, is_wanted: impl Fn(f64) -> bool) -> String {
        metric_until(self.admin, beginning, is_wanted)
    }

    /// A group as the page shows it. Waits until it satisfies `is_wanted`.
    fn group(&self, id: &str, is_wanted: impl Fn(&Value) -> bool) -> Value {
        api_until(self.admin, &format!("groups/{id}"), is_wanted)
    }

    /// The causes of the last rebalances of a group. Waits until they satisfy `is_wanted`.
    fn causes(&self, id: &str, is_wanted: impl Fn(&[String]) -> bool) -> Vec<String> {
        causes_of(&self.group(id, |group| is_wanted(&causes_of(group))))
    }

    fn join(&self, group: &'static str, id: &str) -> Member {
        let mut member = self.member(group, id);
        assert_eq!(member.beat(), 0);
        member
    }

    fn member(&self, group: &'static str, id: &str) -> Member {
        Member {
            client: self.server.client(0),
            group,
            id: id.to_owned(),
            instance_id: None,
            expression: None,
            epoch: 0,
            owned: Vec::new(),
        }
    }
}

impl Member {
    /// Sends a heartbeat, and returns the error code.
    fn beat(&mut self) -> i16 {
        let names = self.expression.is_none().then(|| vec!["orders".into()]);
        let owned =
            self.owned.iter().map(|(topic_id, partitions)| ConsumerGroupHeartbeatTopicPartitions {
                topic_id: *topic_id,
                partitions: partitions.clone(),
            });
        let request = ConsumerGroupHeartbeatRequest {
            group_id: self.group.into(),
            member_id: self.id.clone().into(),
            member_epoch: self.epoch,
            instance_id: self.instance_id.map(Str::from),
            rebalance_timeout_ms: 60_000,
            subscribed_topic_names: names,
            subscribed_topic_regex: self.expression.map(Str::from),
            topic_partitions: Some(owned.collect()),
            ..Default::default()
        };
        let Response::ConsumerGroupHeartbeat(answer) = self.client.call(1, request.into()) else {
            panic!()
        };
        if answer.error_code == 0 {
            self.epoch = answer.member_epoch;
        }
        let assigned = answer.assignment.into_iter().flat_map(|it| it.topic_partitions);
        let assigned: Vec<_> = assigned.map(|it| (it.topic_id, it.partitions)).collect();
        self.owned = if assigned.is_empty() { std::mem::take(&mut self.owned) } else { assigned };
        answer.error_code
    }

    fn leave(mut self) {
        self.epoch = -1;
        assert_eq!(self.beat(), 0);
    }

    fn commit(&mut self, partition: i32, offset: i64) {
        let request = OffsetCommitRequest {
            generation_id_or_member_epoch: self.epoch,
            member_id: self.id.clone().into(),
            ..crate::support::offsets::commit_request(self.group, "orders", [partition], offset, "")
        };
        let Response::OffsetCommit(answer) = self.client.call(9, request.into()) else { panic!() };
        assert_eq!(answer.topics[0].partitions[0].error_code, 0);
    }
}

/// The causes of all rebalances of a group.
fn causes_of(group: &Value) -> Vec<String> {
    let causes = |it: &Value| {
        let causes = it["causes"].as_array().unwrap().iter();
        let words = |it: &Value| format!("{} {}", it["count"], it["cause"].as_str().unwrap());
        causes.map(words).collect::<Vec<_>>().join(", ")
    };
    group["rebalances"].as_array().unwrap().iter().map(causes).collect()
}

#[test]
fn each_incident_is_named_by_what_an_operator_sees() {
    let data = tempfile::tempdir().unwrap();
    let site = Site::new(data.path());
    create_topic(&site.server, "orders", 2);
    let mut notes = Notes::default();
    slow_consumer(&site, &mut notes);
    crash_loop(&site, &mut notes);
    growing_topic(&site, &mut notes);
    bad_expression(&site, &mut notes);
    static_member_twice(&site, &mut notes);
    rolling_restart(&site, &mut notes);
    session_storm(&site, &mut notes);
    drop(site);
    full_disk(&mut notes);
    stalled_disk(&mut notes);
    few_descriptors(&mut notes);
    reloaded_shard(&mut notes);
    notes.write();
}

fn slow_consumer(site: &Site, notes: &mut Notes) {
    notes.incident(
        "A consumer that is slow",
        "Bills come late. `MusterLagGrows` fires at a lag above 10,000 that grows.",
    );
    let mut client = site.server.client(0);
    (0..500).for_each(|_| assert!(produce_to(&mut client, "orders", 0, b"order").is_some()));
    let mut member = site.join("billing", "m-1");
    member.commit(0, 10);
    let lag = "muster_group_lag_sum{group=\"billing\"";
    notes.metric(&site.metric(lag, |lag| lag == 490.0));
    assert_eq!(member.beat(), 0);
    let group = site.group("billing", |it| it["shown"][0].is_object());
    let member = &group["shown"][0];
    assert!(member["silent_ms"].as_i64() < Some(3_000), "{member}");
    assert_eq!(group["state"], "Stable");
    let (id, silent_ms, assigned) = (&member["id"], &member["silent_ms"], &member["assigned"]);
    let shown = json!([{ "id": id, "silent_ms": silent_ms, "assigned": assigned }]);
    let (state, commits) = (&group["state"], &group["commits"]);
    let part = json!({ "state": state, "commits": commits, "shown": shown });
    notes.page("groups/billing", &part);
    notes.cause(
        "The group is stable and its member heartbeats: it reads, but less than is written.",
    );
}

fn crash_loop(site: &Site, notes: &mut Notes) {
    notes.incident(
        "A consumer that crashes in a loop",
        "`MusterMembersExpire` fires if a session expires every five seconds.",
    );
    for life in 1..=2 {
        drop(site.join("emails", &format!("m-{life}")));
        let line =
            site.server.line_with(&format!("group=emails kind=\"consumer\" member=m-{life}"));
        assert!(line.contains("reason=\"session\""), "{line}");
        notes.log(&line);
    }
    let expired = |it: &str| it.contains("expired");
    let causes = site.causes("emails", |it| it.iter().filter(|it| expired(it)).count() >= 2);
    notes.page("groups/emails (causes of rebalances)", &json!(causes));
    assert!(causes.iter().any(|it| it.contains("joined")), "{causes:?}");
    notes.cause(
        "Joined and expired by turns, each time another member of one group: its process dies.",
    );
}

fn growing_topic(site: &Site, notes: &mut Notes) {
    notes.incident("A topic that grows", "Why did billing rebalance at 3 am?");
    let mut member = site.join("nightly", "m-1");
    let topic = CreatePartitionsTopic { name: "orders".into(), count: 4, assignments: None };
    let request =
        CreatePartitionsRequest { topics: vec![topic], timeout_ms: 10_000, validate_only: false };
    let Response::CreatePartitions(answer) = site.server.client(0).call(3, request.into()) else {
        panic!()
    };
    assert_eq!(answer.results[0].error_code, 0);
    let began = Instant::now();
    while member.owned.iter().map(|(_, it)| it.len()).sum::<usize>() < 4 {
        assert!(began.elapsed() < PATIENCE && member.beat() == 0);
    }
    let causes = site.causes("nightly", |it| it.iter().any(|it| it.contains("topics")));
    notes.page("groups/nightly (causes of rebalances)", &json!(causes));
    notes
        .cause("No member came or went: `topics` says that one of its topics got more partitions.");
}

fn bad_expression(site: &Site, notes: &mut Notes) {
    notes.incident("A bad regular expression", "A new consumer reads nothing.");
    let mut member = site.member("search", "m-1");
    member.expression = Some("orders-(");
    assert_eq!(member.beat(), ErrorCode::InvalidRegularExpression as i16);
    let name = "muster_clients_errors_total{shard=\"0\",api=\"ConsumerGroupHeartbeat\",\
                error=\"INVALID_REGULAR_EXPRESSION\"}";
    notes.metric(&site.metric(name, |count| count >= 1.0));
    let line = site.server.line_with("group=search");
    assert!(line.contains("refused a member") && line.contains("client="), "{line}");
    notes.log(&line);
    assert_eq!(api(site.admin, "groups/search").0, 404, "the group was never made");
    notes.cause("The errors by API have the reason, and the log the group and the client.");
}

fn static_member_twice(site: &Site, notes: &mut Notes) {
    notes
        .incident("A static member twice", "One of two consumers that were deployed does nothing.");
    let mut first = site.member("stock", "m-1");
    first.instance_id = Some("pod-1");
    assert_eq!(first.beat(), 0);
    let mut second = site.member("stock", "m-2");
    second.instance_id = Some("pod-1");
    assert_eq!(second.beat(), ErrorCode::UnreleasedInstanceId as i16);
    let name = "muster_clients_errors_total{shard=\"0\",api=\"ConsumerGroupHeartbeat\",\
                error=\"UNRELEASED_INSTANCE_ID\"}";
    notes.metric(&site.metric(name, |count| count >= 1.0));
    assert_eq!(first.beat(), 0);
    let group = site.group("stock", |it| it["members"] == 1);
    let shown = &group["shown"][0];
    assert_eq!(shown["instance_id"], "pod-1");
    notes.page(
        "groups/stock",
        &json!({ "members": 1, "shown": [{ "id": shown["id"],
        "instance_id": shown["instance_id"], "client_host": shown["client_host"] }] }),
    );
    notes.cause("Another member has the `group.instance.id`, and the page says from which host.");
}

fn rolling_restart(site: &Site, notes: &mut Notes) {
    notes.incident("A rolling restart", "Consumers pause again and again for a while.");
    let mut members: Vec<Member> =
        (1..=2).map(|at| site.join("shipping", &format!("m-{at}"))).collect();
    for round in 0..2 {
        members.remove(0).leave();
        let mut next = site.join("shipping", &format!("m-new-{round}"));
        assert_eq!(next.beat(), 0);
        members.iter_mut().for_each(|it| assert_eq!(it.beat(), 0));
        members.push(next);
    }
    let began = Instant::now();
    let mut seen = Vec::new();
    while seen.join(", ").matches("left").count() < 2 {
        members.iter_mut().for_each(|it| assert_eq!(it.beat(), 0));
        seen = causes_of(&api(site.admin, "groups/shipping").1);
        assert!(began.elapsed() < PATIENCE, "{seen:?}");
    }
    notes.page("groups/shipping (causes of rebalances)", &json!(seen));
    assert!(!seen.join(", ").contains("expired"), "{seen:?}");
    notes.cause(
        "Left and joined by turns, and none expired: a deployment. Static members avoid it.",
    );
}

fn session_storm(site: &Site, notes: &mut Notes) {
    const MEMBERS: usize = 20;
    notes.incident(
        "A storm of expired sessions",
        "All consumers of a service lose their partitions.",
    );
    let members: Vec<Member> =
        (0..MEMBERS).map(|at| site.join("payments", &format!("m-{at}"))).collect();
    let count = || site.server.lines_with("removed a member shard=0 group=payments");
    let began = Instant::now();
    while count() < 5 {
        assert!(began.elapsed() < PATIENCE, "{} lines", count());
    }
    notes.log(&site.server.line_with("removed a member shard=0 group=payments"));
    let name = "muster_groups_members_expired_total{shard=\"0\"}";
    notes.metric(&site.metric(name, |count| count >= MEMBERS as f64));
    let group = site.group("payments", |it| it["members"] == 0);
    notes.page("groups/payments", &json!({ "state": group["state"], "members": 0 }));
    notes.cause(
        "All were silent for as long as their session, at the same time, and their connections \
                 are open: they hang or their network does, and the server answers others.",
    );
    drop(members);
}

/// A volume that tests may fill up and freeze. `None` if the machine cannot provide one.
fn volume(notes: &mut Notes) -> Option<PowerSupply> {
    let volume = PowerSupply::new(256 << 20);
    volume.map_err(|missing| notes.skipped(missing)).ok()
}

/// Commits offsets `count` times, but ends at the first commit that is not answered. Returns the
/// number of answers.
fn commits(server: &Server, count: usize) -> usize {
    let Some(mut client) = Client::try_connect(server.port) else { return 0 };
    let request = |round: usize| {
        let metadata = "m".repeat(4_000);
        let partitions = 0..20;
        crate::support::offsets::commit_request("g", "orders", partitions, round as i64, &metadata)
    };
    (0..count).take_while(|round| client.try_call(8, request(*round).into()).is_some()).count()
}

fn full_disk(notes: &mut Notes) {
    notes.incident("A full disk", "`MusterDown` fires.");
    let Some(volume) = volume(notes) else { return };
    let mut server = Server::start(&volume.path().join("data"), 1, &[]);
    create_topic(&server, "orders", 20);
    let filler = volume.path().join("filler");
    let mut file = std::fs::File::create(&filler).unwrap();
    while file.write_all(&[0; 64 << 10]).is_ok() {}
    drop(file);
    assert!(commits(&server, 20_000) < 20_000, "the disk is full");
    assert!(!server.wait().success());
    let line = server.line_with("No space left");
    notes.log(&line);
    notes.cause("The last line of the log says what could not be written, and where.");
    std::fs::remove_file(filler).unwrap();
    let server = server.restart();
    assert_eq!(commits(&server, 3), 3, "with space again it is started again");
}

fn stalled_disk(notes: &mut Notes) {
    notes.incident("A stalled disk", "Commits take seconds. `MusterSlowDisk` fires.");
    let Some(volume) = volume(notes) else { return };
    let site = Site::new(&volume.path().join("data"));
    create_topic(&site.server, "orders", 20);
    let freeze = |how: &str| Command::new("fsfreeze").arg(how).arg(volume.path()).status().unwrap();
    assert!(freeze("-f").success());
    let reasons = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| commits(&site.server, 1));
        let began = Instant::now();
        let reasons = loop {
            let (status, _, reasons) = get(site.admin, "/readyz", "");
            if status == 503 {
                break reasons;
            }
            assert!(began.elapsed() < PATIENCE, "{reasons}");
        };
        assert!(freeze("-u").success());
        assert_eq!(waiting.join().unwrap(), 1);
        reasons
    });
    assert!(reasons.contains("the disk has not finished a flush"), "{reasons}");
    notes.said("`/readyz`", reasons.trim_end());
    notes.log(&site.server.line_with("a flush of the log was slow"));
    notes.cause(
        "The reasons and the log name the disk; nothing was lost, and no session ended meanwhile.",
    );
}

fn few_descriptors(notes: &mut Notes) {
    notes.incident(
        "A shortage of descriptors",
        "New clients cannot connect. `MusterNearLimit` fires.",
    );
    let data = tempfile::tempdir().unwrap();
    let server = Server::with_open_files(data.path(), 1_024);
    let address = ("127.0.0.1", server.port);
    let hoard: Vec<_> = (0..1_200).map_while(|_| TcpStream::connect(address).ok()).collect();
    let line = server.line_with("no descriptors are left for connections");
    assert!(line.contains("ulimit -n"), "{line}");
    notes.log(&line);
    notes.cause("The log says that descriptors are missing, and which limit it is.");
    drop(hoard);
}

fn reloaded_shard(notes: &mut Notes) {
    notes.incident(
        "A shard is loaded again",
        "All clients of a shard lose their connections at once.",
    );
    let data = tempfile::tempdir().unwrap();
    let (server, _) = snapshots::with_a_damaged_group(data.path());
    let lines = ["the snapshot is damaged", "serves again"];
    lines.iter().for_each(|it| notes.log(&server.line_with(it)));
    notes.cause(
        "Its memory and its log differed: its log was read again, and what is damaged put aside.",
    );
}
