//! Whole cores with a member, against a server that answers little besides lookups.

use std::sync::atomic::{AtomicU32, Ordering};

use super::*;

/// A server that answers requests about the cluster and the coordinator. It leaves all others to
/// `serve`, with their correlation ids.
fn broker(serve: impl Fn(&mut TcpStream, i32) + Send + Sync + 'static) -> String {
    broker_at(None, serve)
}

/// The same server, with another advertised port.
fn broker_at(
    advertised: Option<i32>,
    serve: impl Fn(&mut TcpStream, i32) + Send + Sync + 'static,
) -> String {
    server(move |mut stream| {
        let own = i32::from(stream.local_addr().unwrap().port());
        let port = advertised.unwrap_or(own);
        while let Some(frame) = receive(&mut stream) {
            let key = i16::from_be_bytes(frame[..2].try_into().unwrap());
            let correlation = i32::from_be_bytes(frame[4..8].try_into().unwrap());
            let mut body = correlation.to_be_bytes().to_vec();
            match key {
                18 => api_versions().encode(&mut body, 3).unwrap(),
                3 => metadata(port).encode(&mut body, 4).unwrap(),
                10 => find_coordinator(port, &mut body),
                _ => {
                    serve(&mut stream, correlation);
                    continue;
                }
            }
            if stream.write_all(&framed(&body)).is_err() {
                return;
            }
        }
    })
}

pub(super) fn api_versions() -> ApiVersionsResponse {
    let api = |(key, max)| {
        ApiVersion::default().with_api_key(key).with_min_version(0).with_max_version(max)
    };
    let keys = [(3, 4), (8, 9), (9, 8), (10, 4), (68, 0)];
    ApiVersionsResponse::default().with_api_keys(keys.map(api).into())
}

pub(super) fn metadata(port: i32) -> MetadataResponse {
    let host = StrBytes::from_static_str("127.0.0.1");
    let broker = MetadataResponseBroker::default().with_host(host).with_port(port);
    MetadataResponse::default().with_brokers(vec![broker])
}

fn find_coordinator(port: i32, body: &mut Vec<u8>) {
    body.push(0);
    coordinator_at(port).encode(body, 4).unwrap();
}

pub(super) fn coordinator_at(port: i32) -> FindCoordinatorResponse {
    let coordinator = Coordinator::default()
        .with_key(StrBytes::from_static_str("g"))
        .with_node_id(BrokerId(0))
        .with_host(StrBytes::from_static_str("127.0.0.1"))
        .with_port(port);
    FindCoordinatorResponse::default().with_coordinators(vec![coordinator])
}

pub(super) fn member() -> MemberPlan {
    let group = GroupPlan {
        index: GroupIndex(0),
        id: "g".into(),
        protocol: Protocol::Consumer { assignor: None },
        subscription: Subscription::Topics([].into()),
        session_timeout: Duration::from_secs(10),
        heartbeat_interval: Duration::from_secs(3),
        rebalance_timeout: Duration::from_secs(10),
        revocation_takes: Duration::ZERO,
        fetches_on_assignment: false,
        backoff: Backoff { initial: Duration::from_millis(20), max: Duration::from_millis(50) },
    };
    MemberPlan {
        index: MemberIndex(0),
        group: Arc::new(group),
        client_id: "test".into(),
        instance_id: None,
        rack: None,
        process: 0,
        workload: Workload::default(),
    }
}

/// Receives reports until one has an event for which `last` is true, for at most ten seconds.
/// Returns the events of all these reports.
fn events_until(driver: &mut Driver, last: impl Fn(&EventKind) -> bool) -> Vec<Event> {
    let (mut events, mut until) = (Vec::new(), Time::ZERO);
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(10) {
        let Some(report) = driver.receive(Duration::from_secs(1)) else { continue };
        let in_order = report.events.is_sorted_by_key(|event| event.at);
        assert!(in_order && report.events.iter().all(|event| event.at >= until));
        until = report.until;
        events.extend(report.events);
        if events.iter().any(|event| last(&event.kind)) {
            return events;
        }
    }
    panic!("the event did not come: {events:#?}");
}

fn started(server: &str) -> Driver {
    let mut driver = start(target(server)).unwrap();
    let at = driver.now();
    driver.send(0, Command::Start { at, member: member() });
    driver
}

#[test]
fn a_request_to_a_silent_coordinator_times_out_and_is_repeated() {
    let asked = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&asked);
    let server = broker(move |_, _| {
        counter.fetch_add(1, Ordering::Relaxed);
    });
    let mut driver = started(&server);
    let events = events_until(&mut driver, |kind| *kind == EventKind::Disconnected);
    let last = events.last().unwrap();
    assert!(last.at.since(events[0].at) >= Duration::from_millis(300), "{events:?}");
    assert!(asked.load(Ordering::Relaxed) >= 1);
}

#[test]
fn a_wrong_answer_costs_the_connection_and_nothing_else() {
    let server = broker(|stream, correlation| {
        let _ = stream.write_all(&heartbeat_answer(correlation + 1, 0));
    });
    let mut driver = started(&server);
    let problem = std::iter::from_fn(|| driver.receive(Duration::from_secs(5)))
        .find_map(|report| report.sample.problems.into_iter().next())
        .unwrap();
    assert!(problem.contains("an answer to consumer-join cannot be decoded"), "{problem}");
    // The core still works: the member can be stopped, and the core can be ended in order.
    let at = driver.now();
    driver.send(0, Command::Stop { at, member: MemberIndex(0), how: Stop::Crash });
    events_until(&mut driver, |kind| *kind == EventKind::Stopped { how: Stop::Crash });
    driver.send(0, Command::End);
    let ended = std::iter::from_fn(|| driver.receive(Duration::from_secs(5)))
        .find_map(|report| report.ended);
    assert!(matches!(ended, Some(Ok(()))), "{ended:?}");
}

/// The run must not begin: its later requests would all go to the advertised address, where no
/// server is.
#[test]
fn a_cluster_that_advertises_an_unreachable_address_is_refused() {
    let server = broker_at(Some(1), |_, _| {});
    let Err(error) = start(target(&server)) else { panic!("nothing listens on port 1") };
    let expected = "broker 0 is advertised as 127.0.0.1:1, but nothing listens on 127.0.0.1:1";
    assert!(error.contains(expected), "{error}");
}

#[test]
fn a_crash_breaks_the_connection() {
    let (asks, asked) = bounded(1);
    let (sender, broken) = bounded(1);
    let server = broker(move |stream, _| {
        let _ = asks.send(());
        // Reads until the connection is closed or reset.
        let ended = stream.read(&mut [0; 16]);
        let _ = sender.send(ended.map_err(|error| error.kind()));
    });
    let mut driver = started(&server);
    asked.recv_timeout(Duration::from_secs(60)).unwrap();
    let at = driver.now();
    driver.send(0, Command::Stop { at, member: MemberIndex(0), how: Stop::Crash });
    let ended = broken.recv_timeout(Duration::from_secs(60)).unwrap();
    assert_eq!(ended, Err(std::io::ErrorKind::ConnectionReset));
}

#[test]
fn more_commands_than_the_queue_holds_do_not_block_for_ever() {
    let server = broker(|_, _| {});
    let mut driver = start(target(&server)).unwrap();
    for _ in 0..10 * inbox::COMMANDS_MAX {
        driver.send(0, Command::Topics(Arc::default()));
    }
    driver.send(0, Command::End);
    while driver.receive(Duration::from_secs(5)).unwrap().ended.is_none() {}
}
