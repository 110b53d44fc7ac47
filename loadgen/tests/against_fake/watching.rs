//! Other programs follow a run while it runs.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};

use serde_json::Value;
use tempfile::TempDir;

use crate::fake::{Config, Fake};
use crate::run::scenario;
use crate::running::Running;

const STEADY: &str = "[[phase]]\nname = \"steady\"\nlasts = \"60s\"\n";

/// This port was free a moment ago.
fn free_port() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

fn get(address: SocketAddr) -> String {
    let mut client = TcpStream::connect(address).unwrap();
    client.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_browser_has_the_page_while_the_run_is_under_way() {
    let (fake, directory) = (Fake::start(Config::default()), TempDir::new().unwrap());
    let address = free_port();
    let live = ["--live", &address.to_string()];
    let mut run = Running::start(&fake, &directory, &scenario("range", "", STEADY), &live);
    run.wait_for("6 stable");
    assert!(get(address).contains("The first figures come in a moment"));
    // The request makes the run render the page with the next state.
    let mut page = String::new();
    for _ in 0..600 {
        page = get(address);
        if page.contains("Under way for") {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    assert!(page.contains("Under way for"), "{page}");
    assert!(page.contains("Members by state") && page.contains("formation"), "{page}");
    run.interrupt();
    run.end();
}

/// A server that answers each request with 200, and passes the body to the test.
fn collector() -> (String, Receiver<Value>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1/metrics", listener.local_addr().unwrap());
    let (sender, bodies) = channel();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let mut client = BufReader::new(client.unwrap());
            while let Some(body) = request(&mut client) {
                // The body is passed on before the answer, because the run may end with the answer.
                sender.send(body).unwrap();
                let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
                client.get_mut().write_all(answer).unwrap();
            }
        }
    });
    (url, bodies)
}

fn request(client: &mut BufReader<TcpStream>) -> Option<Value> {
    let (mut line, mut length) = (String::new(), 0);
    while line != "\r\n" {
        line.clear();
        if client.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    client.read_exact(&mut body).ok()?;
    Some(serde_json::from_slice(&body).unwrap())
}

fn metric<'a>(body: &'a Value, name: &str) -> Option<&'a Value> {
    let all = body["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array()?;
    all.iter().find(|metric| metric["name"] == name)
}

/// The end of a run pushes the last state once more. In a short run the first push may have
/// contained the same state.
#[test]
fn metrics_are_pushed_to_open_telemetry() {
    let (fake, directory) = (Fake::start(Config::default()), TempDir::new().unwrap());
    let (url, bodies) = collector();
    let scenario = scenario("range", "", STEADY);
    let mut run = Running::start(&fake, &directory, &scenario, &["--otlp", &url]);
    run.wait_for("6 stable");
    run.interrupt();
    let (_, summary) = run.end();
    let bodies: Vec<Value> = bodies.try_iter().collect();
    assert!(bodies.len() >= 2, "{}: {summary}", bodies.len());
    let errors = |body| &metric(body, "muster_load.errors").unwrap()["sum"]["dataPoints"][0];
    let pushed_at = |body| errors(body)["timeUnixNano"].as_str().unwrap().parse::<u64>().unwrap();
    let (first, last) = (&bodies[0], bodies.last().unwrap());
    assert!(pushed_at(first) <= pushed_at(last), "{first}\n{last}");
    assert!(errors(last)["asDouble"].is_number(), "{last}");
}

#[test]
fn an_endpoint_that_takes_no_metrics_is_named_once() {
    let (fake, directory) = (Fake::start(Config::default()), TempDir::new().unwrap());
    let url = format!("http://{}/v1/metrics", free_port());
    let scenario = scenario("range", "", STEADY);
    let mut run = Running::start(&fake, &directory, &scenario, &["--otlp", &url]);
    run.wait_for("metrics cannot be pushed (--otlp)");
    run.interrupt();
    let (status, summary) = run.end();
    assert_eq!(status, Some(130), "{summary}");
    assert!(!summary.contains("cannot be pushed"), "{summary}");
}
