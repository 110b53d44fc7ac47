//! The real server from an operator's view: lag as metrics, the read API, and access control.

use crate::support::http::{api, api_until, get, get_with};
use crate::support::offsets::{commit, commit_request};
use crate::support::{Client, Server, create_topic, free_ports, produce_to, variable};
use muster_codec::messages::*;
use muster_codec::{ApiKey, Response};
use serde_json::{Value, json};

/// A group id with characters that break a page, a URL or a line of metrics if they are not
/// escaped.
const HOSTILE: &str = "<script>alert(1)</script>\"'&\n\\u202e/?#%2F\u{202e}x";

const TOKEN: &str = "a-token-of-32-visible-characters";

/// A server with two shards, and the port of its admin listener.
fn server(data: &std::path::Path, more: &[&str]) -> (Server, u16) {
    let port = free_ports(1);
    let listener = format!("admin.listener=127.0.0.1:{port}");
    let all = [&[&*listener, "admin.lag.interval.ms=100"], more].concat();
    (Server::start(data, 2, &all), port)
}

/// Appends records to a partition, at the shard that leads it.
fn append(server: &Server, topic: &'static str, partition: i32, count: i64) {
    let shard = leader(server, topic, partition);
    let mut client = server.client(shard);
    for _ in 0..count {
        produce_to(&mut client, topic, partition, b"value").unwrap();
    }
}

fn leader(server: &Server, topic: &'static str, partition: i32) -> u16 {
    crate::support::transactional::leader(server, topic, partition)
}

fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02x}")).collect()
}

fn heartbeat(client: &mut Client, group: &str, member: &str, epoch: i32) -> i32 {
    let request = ConsumerGroupHeartbeatRequest {
        group_id: group.to_owned().into(),
        member_id: member.to_owned().into(),
        member_epoch: epoch,
        rebalance_timeout_ms: 60_000,
        subscribed_topic_names: Some(vec!["orders".into()]),
        topic_partitions: Some(Vec::new()),
        ..Default::default()
    };
    let Response::ConsumerGroupHeartbeat(answer) = client.call(1, request.into()) else { panic!() };
    assert_eq!(answer.error_code, 0, "{:?}", answer.error_message);
    answer.member_epoch
}

/// The values of a metric, each with its labels.
fn values(text: &str, name: &str) -> Vec<(String, String)> {
    let beginning = format!("{name}{{");
    let lines = text.lines().filter_map(|line| line.strip_prefix(&beginning));
    lines
        .map(|line| {
            let (labels, value) = line.rsplit_once("} ").unwrap();
            (labels.to_owned(), value.to_owned())
        })
        .collect()
}

/// Creates a topic with four partitions on two shards, with ten records in each.
fn orders(server: &Server) {
    create_topic(server, "orders", 4);
    (0..4).for_each(|partition| append(server, "orders", partition, 10));
    let leaders: std::collections::BTreeSet<u16> =
        (0..4).map(|partition| leader(server, "orders", partition)).collect();
    assert_eq!(leaders.len(), 2, "its partitions are on both shards");
}

#[test]
fn lag_is_that_of_partitions_of_all_shards() {
    let data = tempfile::tempdir().unwrap();
    let (server, port) = server(data.path(), &["admin.lag.top=3", "admin.lag.groups=vip,also-*"]);
    orders(&server);
    for (partition, offset) in [(0, 10), (1, 7), (2, 0), (3, 99)] {
        commit(&server, "billing", "orders", partition, offset);
    }
    commit(&server, "vip", "orders", 0, 9);
    commit(&server, "also-this", "orders", 1, 10);
    commit(&server, HOSTILE, "orders", 1, 8);
    commit(&server, "elsewhere", "__consumer_offsets", 0, 5);
    let found = api_until(port, "groups", |found| found["all"] == 5);
    let rows: Vec<_> = found["groups"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| {
            (row["id"].as_str().unwrap().to_owned(), row["lag"].clone(), row["partitions"].clone())
        })
        .collect();
    let row = |id: &str, lag: Value, partitions: u32| (id.to_owned(), lag, json!(partitions));
    assert_eq!(
        rows,
        [
            row("billing", json!(13), 4),
            row(HOSTILE, json!(2), 1),
            row("vip", json!(1), 1),
            row("also-this", json!(0), 1),
            row("elsewhere", Value::Null, 0),
        ]
    );
    let (_, _, text) = get(port, "/metrics", "text/plain");
    let hostile = HOSTILE.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let labels = |group: &str, partition: i32| {
        format!("group=\"{group}\",topic=\"orders\",partition=\"{partition}\"")
    };
    let lag = |group: &str, partition, lag: &str| (labels(group, partition), lag.to_owned());
    assert_eq!(
        values(&text, "muster_group_lag"),
        [
            lag("billing", 2, "10"),
            lag("billing", 1, "3"),
            lag(&hostile, 1, "2"),
            lag("also-this", 1, "0"),
            lag("vip", 0, "1"),
        ],
        "the three with the most, and those that were chosen"
    );
    let sums: Vec<_> = values(&text, "muster_group_lag_sum").into_iter().map(|it| it.1).collect();
    assert_eq!(sums, ["13", "2", "1", "0"]);

    // After a restart no group is loaded, but the answers are complete.
    let server = {
        let mut server = server;
        assert!(server.stop().success());
        server.restart()
    };
    let again = api_until(port, "groups", |found| found["all"] == 5);
    assert_eq!(again["groups"], found["groups"]);
    drop(server);
}

#[test]
fn a_group_is_shown_with_its_members_commits_and_why_it_rebalanced() {
    let data = tempfile::tempdir().unwrap();
    let (server, port) = server(data.path(), &["group.consumer.assignment.interval.ms=0"]);
    orders(&server);
    let mut client = server.coordinator("billing");
    let epoch = heartbeat(&mut client, "billing", "m-<b>1", 0);
    commit(&server, "reports", "orders", 3, 4);
    let shown = api_until(port, "groups/billing", |it| it["rebalances"][0].is_object());
    assert_eq!(shown["kind"], "consumer");
    assert_eq!((&shown["epoch"], &shown["target_epoch"]), (&json!(epoch), &json!(epoch)));
    let member = &shown["shown"][0];
    assert_eq!((&member["id"], &member["epoch"]), (&json!("m-<b>1"), &json!(epoch)));
    let first = json!([{ "topic": "orders", "partitions": [0, 1, 2, 3] }]);
    assert_eq!(member["assigned"], json!({ "partitions": 4, "first": first }));
    assert_eq!(
        (&member["topics"], &member["client_host"]),
        (&json!(["orders"]), &json!("/127.0.0.1"))
    );
    let rebalance = &shown["rebalances"][0];
    let named = json!([{ "id": "m-<b>1", "client_id": null, "client_host": null, "reason": null }]);
    let causes = json!([{ "cause": "joined", "count": 1, "members": ["m-<b>1"], "named": named }]);
    assert_eq!((&rebalance["causes"], &rebalance["epoch"]), (&causes, &json!(epoch)));
    assert_eq!(
        (&rebalance["members_moved"], &rebalance["partitions_moved"]),
        (&json!(1), &json!(4))
    );
    assert!(rebalance["ended"].as_i64() >= rebalance["began"].as_i64());

    // The second member starts a rebalance, which waits for the first.
    heartbeat(&mut client, "billing", "m-2", 0);
    let shown = api_until(port, "groups/billing", |it| it["under_way"].is_object());
    assert_eq!(shown["under_way"]["causes"][0]["members"], json!(["m-2"]));
    assert_eq!((&shown["members"], &shown["state"]), (&json!(2), &json!("Reconciling")));

    let (_, reports) = api(port, "groups/reports");
    let commit = &reports["commits"][0];
    assert_eq!(
        (&commit["offset"], &commit["end"], &commit["lag"]),
        (&json!(4), &json!(10), &json!(6))
    );
    assert_eq!((&commit["metadata"], &reports["offsets"]), (&json!("at 4"), &json!(1)));
    assert!(commit["at"].as_i64() > Some(1_700_000_000_000));

    commit_hostile(&server, port);
    for (path, words) in [("groups/none", "group"), ("topics/none", "topic"), ("nothing", "path")] {
        let (status, answer) = api(port, path);
        assert!(answer["error"].as_str().unwrap().contains(words), "{answer}");
        assert_eq!(status, 404, "{path}");
    }
}

fn commit_hostile(server: &Server, port: u16) {
    commit(server, HOSTILE, "orders", 0, 1);
    let (status, shown) = api(port, &format!("groups/{}", encoded(HOSTILE)));
    assert_eq!(
        (status, &shown["id"], &shown["commits"][0]["lag"]),
        (200, &json!(HOSTILE), &json!(9))
    );
}

#[test]
fn lists_have_pages_filters_and_limits() {
    let data = tempfile::tempdir().unwrap();
    let (server, port) = server(data.path(), &[]);
    orders(&server);
    for group in 0..30 {
        commit(&server, &format!("Group-{group:02}"), "orders", 0, i64::from(group % 3));
    }
    heartbeat(&mut server.coordinator("member"), "member", "m", 0);
    api_until(port, "groups", |found| found["all"] == 31);
    let ids = |path: &str| {
        let (status, answer) = api(port, path);
        assert_eq!(status, 200, "{answer}");
        let ids = answer["groups"].as_array().unwrap().iter();
        let ids: Vec<String> = ids.map(|row| row["id"].as_str().unwrap().to_owned()).collect();
        (answer["found"].as_u64().unwrap(), ids)
    };
    assert_eq!(ids("groups?search=gROUP-0&sort=id&rows=2&from=3").1, ["Group-03", "Group-04"]);
    assert_eq!(ids("groups?search=group-1&sort=id").0, 10);
    assert_eq!(ids("groups?rows=3").1, ["Group-00", "Group-03", "Group-06"], "by lag, then by id");
    assert_eq!(ids("groups?kind=consumer&state=stable"), (1, vec!["member".to_owned()]));
    assert_eq!(ids("groups?sort=members&rows=1").1, ["member"]);
    assert_eq!(ids("groups?from=1000"), (31, Vec::new()));
    let long = format!("groups?search={}", "x".repeat(300));
    for refused in ["groups?rows=501", "groups?from=-1", "groups?sort=name", "groups?a=%zz", &*long]
    {
        assert_eq!(api(port, refused).0, 400, "{refused}");
    }

    let (_, topics) = api(port, "topics?search=ORD");
    assert_eq!((&topics["found"], &topics["topics"][0]["records"]), (&json!(1), &json!(40)));
    let (_, topics) = api(port, "topics?rows=500");
    let is_internal = |it: &Value| it["internal"].as_bool().unwrap();
    let internal: Vec<bool> =
        topics["topics"].as_array().unwrap().iter().map(is_internal).collect();
    assert!(internal.is_sorted() && internal.first() == Some(&false), "{topics}");
    assert_eq!(internal.last(), Some(&true), "{topics}");
    let (_, topic) = api(port, "topics/orders?from=1&rows=2");
    let partitions: Vec<_> = topic["shown"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| (it["partition"].clone(), it["start"].clone(), it["end"].clone()))
        .collect();
    let expected = [1, 2].map(|partition| (json!(partition), json!(0), json!(10)));
    assert_eq!(partitions, expected);

    let (_, shards) = api(port, "shards");
    let shards = shards["shards"].as_array().unwrap();
    assert!(shards.iter().all(|shard| shard["state"] == "serving" && shard["answers"] == true));
    let committed = shards.iter().map(|it| it["numbers"]["groups_offsets_committed"].as_u64());
    assert_eq!(committed.flatten().sum::<u64>(), 30);
    assert!(shards[0]["numbers"]["shard_turn_micros"]["count"].as_u64() > Some(0));
}

#[test]
fn configs_have_their_sources_and_secrets_are_not_shown() {
    let data = tempfile::tempdir().unwrap();
    let token = format!("admin.token={TOKEN}");
    let (_server, port) = server(data.path(), &[&token, "num.partitions=7"]);
    let lines = format!("Host: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n");
    let (status, _, body) = get_with(port, "/api/v1/configs?broker=1", &lines);
    assert_eq!(status, 200);
    assert!(!body.contains(TOKEN), "the token is a secret");
    let configs: Value = serde_json::from_str(&body).unwrap();
    let of = |name: &str| {
        configs["configs"].as_array().unwrap().iter().find(|it| it["name"] == name).unwrap().clone()
    };
    let partitions = of("num.partitions");
    assert_eq!(
        (&partitions["value"], &partitions["source"]),
        (&json!("7"), &json!("STATIC_BROKER_CONFIG"))
    );
    let token = of("admin.token");
    assert_eq!((&token["value"], &token["secret"]), (&Value::Null, &json!(true)));
    assert_eq!(of("log.cleaner.threads")["obeyed"], false);
    let (_, _, body) = get_with(port, "/api/v1/configs?topic=__consumer_offsets", &lines);
    let configs: Value = serde_json::from_str(&body).unwrap();
    let configs = configs["configs"].as_array().unwrap();
    for (name, obeyed) in [("cleanup.policy", true), ("flush.ms", false)] {
        let of_topic = configs.iter().find(|it| it["name"] == name).unwrap();
        assert_eq!(of_topic["obeyed"], obeyed, "{name}");
    }
    for (path, code) in [("configs?topic=__consumer_offsets", 200), ("configs?broker=9", 404)] {
        assert_eq!(get_with(port, &format!("/api/v1/{path}"), &lines).0, code, "{path}");
    }
}

#[test]
fn a_token_is_asked_for_where_it_is_set_and_foreign_pages_get_nothing() {
    let data = tempfile::tempdir().unwrap();
    let token = format!("admin.token={TOKEN}");
    let (server, port) = server(data.path(), &[&token]);
    server.says("ready after");
    let status = |path: &str, lines: &str| get_with(port, path, lines).0;
    let with = format!("Host: a\r\nAuthorization: Bearer {TOKEN}\r\n");
    let wrong = format!("Host: a\r\nAuthorization: Bearer {TOKEN}0\r\n");
    for path in ["/api/v1/groups", "/api/v1/shards", "/api/v1", "/metrics"] {
        assert_eq!(status(path, &with), 200, "{path}");
        assert_eq!(
            (status(path, &wrong), status(path, "Host: 127.0.0.1\r\n")),
            (401, 401),
            "{path}"
        );
    }
    for path in ["/", "/healthz", "/readyz"] {
        assert_eq!(status(path, "Host: a\r\n"), 200, "{path}");
    }
    drop(server);

    let data = tempfile::tempdir().unwrap();
    let (_server, port) = self::server(data.path(), &[]);
    let status = |path: &str, lines: &str| get_with(port, path, lines).0;
    assert_eq!(status("/api/v1/groups", "Host: localhost:9190\r\n"), 200);
    assert_eq!(status("/api/v1/groups", "Host: evil.example\r\n"), 403);
    assert_eq!(status("/metrics", "Host: evil.example\r\n"), 403);
    assert_eq!(status("/metrics", "Host: [::1]:9190\r\n"), 200);
    assert_eq!(status("/api/v2", "Host: localhost\r\n"), 404);

    // A listener on all addresses serves no API without a token.
    let data = tempfile::tempdir().unwrap();
    let port = free_ports(1);
    let _server = Server::start(data.path(), 1, &[&format!("admin.listener=0.0.0.0:{port}")]);
    assert_eq!(get_with(port, "/api/v1/groups", "Host: 127.0.0.1\r\n").0, 403);
    assert_eq!(get_with(port, "/metrics", "Host: a\r\n").0, 200);
}

#[test]
fn the_page_may_run_its_own_script_and_nothing_else() {
    let data = tempfile::tempdir().unwrap();
    let (_server, port) = server(data.path(), &[]);
    let (status, head, page) = get(port, "/", "text/html");
    assert_eq!((status, page.starts_with("<!DOCTYPE html>")), (200, true));
    let policy = head.lines().find(|line| line.starts_with("Content-Security-Policy: ")).unwrap();
    for part in ["default-src 'none'", "script-src 'sha256-", "frame-ancestors 'none'"] {
        assert!(policy.contains(part), "{policy}");
    }
    assert!(!policy.contains("unsafe"), "{policy}");
    assert!(head.contains("\r\nX-Content-Type-Options: nosniff"), "{head}");
}

/// Commits offsets in many groups, with many requests in flight.
fn commit_many(server: &Server, groups: u64) {
    let coordinators = server.coordinators();
    let mut clients = [server.client(0), server.client(1)];
    let ids: Vec<String> = (0..groups).map(|group| format!("group-{group:06}")).collect();
    for some in ids.chunks(500) {
        let mut sent = Vec::new();
        for id in some {
            let shard = usize::from(coordinators.shard(id).unwrap());
            let request = commit_request(id, "orders", [0], 3, "").into();
            sent.push((shard, clients[shard].send(8, &request).unwrap()));
        }
        for (shard, id) in sent {
            clients[shard].receive(ApiKey::OffsetCommit, 8, id).unwrap();
        }
    }
}

/// Produces records of each kind that the page shows in its own way: JSON, JSON with a number that
/// JavaScript would round, markup, and bytes that are no text.
fn write_values(server: &Server) {
    create_topic(server, "values", 1);
    let mut client = server.client(leader(server, "values", 0));
    for number in 0..30 {
        produce_to(&mut client, "values", 0, format!("value {number}").as_bytes()).unwrap();
    }
    for value in [
        &br#"{"id":7,"name":"a"}"#[..],
        br#"{"id":12345678901234567890}"#,
        b"<img src=x onerror='window.pwned=1'>",
        &[0, 1, 254, 255],
    ] {
        produce_to(&mut client, "values", 0, value).unwrap();
    }
}

/// The script `muster/tests/page/run` runs this test.
#[test]
#[ignore = "needs a browser's driver; muster/tests/page/run sets MUSTER_PAGE_DRIVER"]
fn the_page_in_a_browser() {
    const HOSTILE: &str = "<img src=x onerror='window.pwned=1'>\"&</td>\u{202e}\n%41/?#";
    let driver = std::env::var_os("MUSTER_PAGE_DRIVER").expect("set MUSTER_PAGE_DRIVER");
    let data = tempfile::tempdir().unwrap();
    // The member sends no heartbeats, so its session is long.
    let session = ["group.consumer.max.session.timeout.ms=", "group.consumer.session.timeout.ms="];
    let [longest, session] = session.map(|key| format!("{key}3600000"));
    let (server, port) = server(data.path(), &[&longest, &session, "admin.records=true"]);
    orders(&server);
    write_values(&server);
    let groups = variable("MUSTER_PAGE_GROUPS", 1_000);
    commit_many(&server, groups);
    commit(&server, HOSTILE, "orders", 0, 1);
    heartbeat(&mut server.coordinator("readers"), "readers", "m-1", 0);
    let with_token = tempfile::tempdir().unwrap();
    let (_other, other_port) = self::server(with_token.path(), &[&format!("admin.token={TOKEN}")]);
    let ended = std::process::Command::new("python3")
        .arg(driver)
        .args([port.to_string(), (groups + 2).to_string(), HOSTILE.to_owned()])
        .args([other_port.to_string(), TOKEN.to_owned()])
        .status();
    assert!(ended.unwrap().success());
}
