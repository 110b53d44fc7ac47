//! Compares the figures with a packet capture. This needs tcpdump and the right to capture on the
//! loopback device: `cargo test -p loadgen --test against_fake capture -- --ignored --nocapture`.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use loadgen::report::json;
use loadgen::report::model::{Latency, Report};
use tempfile::TempDir;

use crate::fake::{Config, Fake};
use crate::run::scenario;
use crate::running::Running;

/// A figure may differ from the figure of the capture by this fraction. A larger difference is
/// allowed only if the report marks the figure.
const NEAR: f64 = 0.1;

const APIS: [(i16, &str); 2] = [(12, "heartbeat"), (8, "commit")];

type Figure = fn(&Latency) -> f64;

const FIGURES: [(&str, f64, Figure); 2] = [("p50", 0.5, |l| l.p50), ("p99", 0.99, |l| l.p99)];

#[test]
#[ignore = "needs root and tcpdump; run with --ignored"]
fn unmarked_figures_agree_with_a_packet_capture() {
    let (fake, directory) = (Fake::start(Config::default()), TempDir::new().unwrap());
    let [pcap, result] = ["capture.pcap", "result.json"].map(|name| directory.path().join(name));
    let bootstrap = fake.bootstrap();
    let port = bootstrap.rsplit_once(':').unwrap().1.parse().unwrap();
    let mut capture = start_capture(port, &pcap);
    let options = ["--json", result.to_str().unwrap()];
    let (status, output) = Running::start(&fake, &directory, &crowd(), &options).end();
    assert_eq!(status, Some(0), "{output}");
    let pid = capture.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    capture.wait().unwrap();
    let captured = round_trips(&std::fs::read(&pcap).unwrap(), port);
    compare(&json::load(&result).unwrap(), captured);
}

/// 200 members, each with a heartbeat and a commit every half second.
fn crowd() -> String {
    let phases = "[[phase]]\nname = \"steady\"\nlasts = \"20s\"\n";
    scenario("range", "commit = { every = \"500ms\" }", phases)
        .replace("partitions = 12", "partitions = 200")
        .replace("members = 6", "members = 200")
        .replace("timeout = \"1s\"", "timeout = \"1min\"")
        .replace("interval = \"50ms\"", "interval = \"500ms\"")
}

/// Starts tcpdump, and returns once it captures.
fn start_capture(port: u16, into: &Path) -> Child {
    let mut command = Command::new("tcpdump");
    command.args(["-i", "lo", "-B", "65536", "--time-stamp-precision=nano", "-U", "-w"]);
    command.arg(into).args(["tcp", "port", &port.to_string()]);
    let mut capture = command.stderr(Stdio::piped()).spawn().expect("tcpdump is installed");
    let mut lines = BufReader::new(capture.stderr.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("listening on lo")), "it captures");
    // tcpdump reports its counts at the end.
    std::thread::spawn(move || lines.for_each(|line| println!("tcpdump: {}", line.unwrap())));
    capture
}

fn compare(report: &Report, mut captured: HashMap<i16, Vec<u64>>) {
    let mut wrong = Vec::new();
    for (api, name) in APIS {
        let times = captured.get_mut(&api).expect("round trips");
        times.sort_unstable();
        let (due, sent) = (&report.latencies[name], &report.uncorrected[name]);
        let undelayed = &report.undelayed[name];
        for (percentile, share, figure) in FIGURES {
            let at = (times.len() as f64 * share).ceil() as usize - 1;
            let truth = times[at] as f64 / 1e6;
            for (what, latency, undelayed) in [("due", due, undelayed), ("sent", sent, sent)] {
                let (value, marked) =
                    (figure(latency), report.pace.blurs(latency, figure, Some(undelayed)));
                let mark = if marked { "~" } else { "" };
                println!("{name} {percentile}: capture {truth:.3} ms, {what} {mark}{value:.3} ms");
                if !marked && (value - truth).abs() > NEAR * truth {
                    wrong.push(format!("{name} {percentile}, {what}"));
                }
            }
        }
        println!("{name}: {} in the capture, {} sent", times.len(), sent.count);
    }
    assert!(wrong.is_empty(), "{wrong:?} are neither near nor marked");
}

/// The frames of one direction of a connection.
#[derive(Default)]
struct Stream {
    bytes: Vec<u8>,
    next: Option<u32>,
}

impl Stream {
    /// The frames that this segment completes, without their lengths.
    fn take(&mut self, sequence: u32, payload: &[u8]) -> Vec<Vec<u8>> {
        let next = self.next.get_or_insert(sequence);
        // Skips the bytes that TCP has sent again.
        let again = next.wrapping_sub(sequence) as usize;
        assert!(again < 1 << 31, "the capture is complete and in order");
        let new = payload.get(again..).unwrap_or_default();
        *next = next.wrapping_add(new.len() as u32);
        self.bytes.extend_from_slice(new);
        let mut frames = Vec::new();
        while let Some(length) = self.bytes.first_chunk() {
            let end = 4 + u32::from_be_bytes(*length) as usize;
            if self.bytes.len() < end {
                break;
            }
            frames.push(self.bytes.drain(..end).skip(4).collect());
        }
        frames
    }
}

/// For each API, the round trips in nanoseconds: from the packet with the last byte of a request
/// to the packet with the last byte of its answer.
fn round_trips(pcap: &[u8], port: u16) -> HashMap<i16, Vec<u64>> {
    let (mut streams, mut asked) = (HashMap::<_, Stream>::new(), HashMap::new());
    let mut took = HashMap::<i16, Vec<u64>>::new();
    for (at, segment) in Packets(&pcap[24..]) {
        let Some(Segment { from, to, sequence, payload }) = Segment::of(segment) else { continue };
        let client = if to == port { from } else { to };
        for frame in streams.entry((from, to)).or_default().take(sequence, payload) {
            if to == port {
                let [api, correlation] = [&frame[..2], &frame[4..8]].map(number);
                asked.insert((client, correlation), (api as i16, at));
            } else if let Some((api, sent)) = asked.remove(&(client, number(&frame[..4]))) {
                took.entry(api).or_default().push(at - sent);
            }
        }
    }
    took
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// The packets in a file of tcpdump, each with its time in nanoseconds.
struct Packets<'f>(&'f [u8]);

impl<'f> Iterator for Packets<'f> {
    type Item = (u64, &'f [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (header, rest) = self.0.split_at_checked(16)?;
        let field = |at: usize| u32::from_le_bytes(*header[at..].first_chunk().unwrap());
        let (packet, rest) = rest.split_at_checked(field(8) as usize)?;
        self.0 = rest;
        Some((u64::from(field(0)) * 1_000_000_000 + u64::from(field(4)), packet))
    }
}

/// The data of a TCP segment over IPv4.
struct Segment<'p> {
    from: u16,
    to: u16,
    sequence: u32,
    payload: &'p [u8],
}

impl<'p> Segment<'p> {
    /// `None` for a segment without data.
    fn of(packet: &'p [u8]) -> Option<Self> {
        let ip = &packet[14..];
        let (ip_header, length) = (usize::from(ip[0] & 15) * 4, number(&ip[2..4]) as usize);
        let tcp = &ip[ip_header..length];
        let payload = &tcp[usize::from(tcp[12] >> 4) * 4..];
        let [from, to] = [&tcp[..2], &tcp[2..4]].map(|port| number(port) as u16);
        let sequence = number(&tcp[4..8]) as u32;
        (!payload.is_empty()).then_some(Self { from, to, sequence, payload })
    }
}
