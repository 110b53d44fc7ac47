//! A closed-loop client of `echo`: N connections, each with one frame in flight. Prints requests
//! per second, latency, and the server's CPU time.
//!
//!     ping --connect 127.0.0.1:PORT [--connections N] [--seconds S] [--payload BYTES]
//!          [--server-pid PID]

use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};
use std::{env, fs, io};

use muster_uring::{Config, ConnId, Event, Ring};

struct Options {
    connect: SocketAddr,
    connections: usize,
    seconds: f64,
    payload: usize,
    server_pid: Option<u32>,
}

/// One request in flight.
struct Pinger {
    conn: ConnId,
    sent: Instant,
    missing: usize,
}

/// The CPU time of the server, and the time for which core 0 was busy.
#[derive(Clone, Copy, Default)]
struct CpuSeconds {
    process: f64,
    core: f64,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let options = arguments()?;
    muster_uring::raise_open_files()?;
    let mut ring = Ring::new(Config::default())?;
    let mut frame = (options.payload as u32).to_be_bytes().to_vec();
    frame.resize(4 + options.payload, b'x');
    let mut pingers = Vec::new();
    for _ in 0..options.connections {
        let stream = TcpStream::connect(options.connect)?;
        stream.set_nodelay(true)?;
        let conn = ring.adopt(stream)?;
        pingers.push(Pinger { conn, sent: Instant::now(), missing: 0 });
    }
    for pinger in &mut pingers {
        send(&mut ring, pinger, &frame);
    }
    run(&mut ring, &mut pingers, &frame, Duration::from_millis(500))?;
    let before = cpu_seconds(options.server_pid)?;
    let start = Instant::now();
    let length = Duration::from_secs_f64(options.seconds);
    let mut latencies = run(&mut ring, &mut pingers, &frame, length)?;
    let (wall, after) = (start.elapsed().as_secs_f64(), cpu_seconds(options.server_pid)?);
    let used =
        CpuSeconds { process: after.process - before.process, core: after.core - before.core };
    report(&mut latencies, wall, used);
    Ok(())
}

fn arguments() -> Result<Options, Box<dyn std::error::Error>> {
    let connect = SocketAddr::from(([127, 0, 0, 1], 9092));
    let mut options =
        Options { connect, connections: 1, seconds: 3.0, payload: 60, server_pid: None };
    let mut words = env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next().ok_or("every option needs a value")?;
        match word.as_str() {
            "--connect" => options.connect = value.parse()?,
            "--connections" => options.connections = value.parse()?,
            "--seconds" => options.seconds = value.parse()?,
            "--payload" => options.payload = value.parse()?,
            "--server-pid" => options.server_pid = Some(value.parse()?),
            _ => return Err(format!("unknown option {word}").into()),
        }
    }
    Ok(options)
}

fn send(ring: &mut Ring, pinger: &mut Pinger, frame: &[u8]) {
    if let Some(output) = ring.output(pinger.conn) {
        output.extend_from_slice(frame);
        pinger.sent = Instant::now();
        pinger.missing = frame.len();
    }
}

/// Runs for `length` and returns the latencies of all answers, in nanoseconds.
fn run(
    ring: &mut Ring,
    pingers: &mut [Pinger],
    frame: &[u8],
    length: Duration,
) -> io::Result<Vec<u32>> {
    let mut latencies = Vec::new();
    let end = Instant::now() + length;
    while Instant::now() < end {
        ring.turn(Some(Duration::from_millis(100)))?;
        while let Some(event) = ring.next_event() {
            match event {
                Event::Received { conn, data } => {
                    let pinger = &mut pingers[conn.index()];
                    pinger.missing -= data.len();
                    if pinger.missing == 0 {
                        let nanos = pinger.sent.elapsed().as_nanos();
                        latencies.push(nanos.min(u32::MAX.into()) as u32);
                        send(ring, pinger, frame);
                    }
                }
                Event::Ended { .. } => return Err(io::ErrorKind::UnexpectedEof.into()),
                Event::SendFailed { error, .. } => return Err(error),
                _ => {}
            }
        }
    }
    Ok(latencies)
}

/// The CPU seconds of the server's process, and those of core 0. Kernel threads that work for the
/// server are included only in those of core 0.
fn cpu_seconds(pid: Option<u32>) -> io::Result<CpuSeconds> {
    let Some(pid) = pid else { return Ok(CpuSeconds::default()) };
    let mut process = 0.0;
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        let text = fs::read_to_string(task?.path().join("schedstat"))?;
        process += number(&text, 0) / 1e9;
    }
    let stat = fs::read_to_string("/proc/stat")?;
    let core = stat.lines().find(|line| line.starts_with("cpu0")).unwrap_or_default();
    let core = [1, 2, 3, 6, 7].map(|field| number(core, field)).iter().sum::<f64>() / 100.0;
    Ok(CpuSeconds { process, core })
}

fn number(text: &str, field: usize) -> f64 {
    text.split_whitespace().nth(field).and_then(|word| word.parse().ok()).unwrap_or(0.0)
}

fn report(latencies: &mut [u32], wall: f64, CpuSeconds { process, core }: CpuSeconds) {
    latencies.sort_unstable();
    let at = |share: f64| {
        let index = (latencies.len() as f64 * share) as usize;
        f64::from(latencies.get(index).copied().unwrap_or(0)) / 1e3
    };
    let requests = latencies.len() as f64;
    println!(
        "{:.0} requests/s, p50 {:.0} us, p99 {:.0} us; \
         per CPU-second: {:.0} (process), {:.0} (core 0)",
        requests / wall,
        at(0.5),
        at(0.99),
        requests / process,
        requests / core,
    );
}
