//! Echoes frames (4-byte big-endian length, payload) from one driver on one thread. It is the
//! baseline of muster's benchmarks. The driver is a ring, or with `--driver poll` a poller. With
//! `--durable FILE` each frame is made durable in the file before it is answered; while one write
//! is in flight, the next batch gathers.
//!
//!     echo --listen 127.0.0.1:PORT [--driver poll] [--durable FILE]

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;
use std::{env, io};

use muster_uring::{AlignedBuf, Config, ConnId, Driver, Durability, Event, File, Poller, Ring};

const FRAME_BYTES_MAX: usize = 1 << 20;
const UNSENT_BYTES_MAX: usize = 1 << 20;
const SEGMENT_BYTES: u64 = 256 << 20;

type Failure = Box<dyn std::error::Error>;

struct Options {
    listen: SocketAddr,
    durable: Option<String>,
    polls: bool,
}

fn main() -> Result<(), Failure> {
    let options = arguments()?;
    muster_uring::raise_open_files()?;
    if options.polls {
        serve(Poller::new()?, &options)
    } else {
        serve(Ring::new(Config::default())?, &options)
    }
}

fn serve(mut ring: impl Driver, options: &Options) -> Result<(), Failure> {
    let durable = options.durable.as_ref();
    let mut log = durable.map(|path| Log::create(&mut ring, Path::new(path))).transpose()?;
    let listener = ring.listen(options.listen, 4096)?;
    println!("listening on {}", ring.local_addr(listener)?);
    let mut partial: Vec<Vec<u8>> = Vec::new();
    loop {
        ring.turn(None)?;
        while let Some(event) = ring.next_event() {
            match event {
                Event::Received { conn, data } => {
                    receive(&mut ring, &mut log, &mut partial, conn, &data);
                }
                Event::Written { result, buf, .. } => {
                    result?;
                    if let Some(log) = &mut log {
                        log.flushed(&mut ring, buf);
                    }
                }
                Event::Ended { conn, .. } | Event::SendFailed { conn, .. } => ring.close(conn),
                Event::Closed { conn } => partial[conn.index()].clear(),
                Event::Accepted { conn, .. } => {
                    ring.put_first(conn, true);
                    let len = partial.len().max(conn.index() + 1);
                    partial.resize_with(len, Vec::new);
                }
                Event::AcceptFailed { error, .. } => eprintln!("accept: {error}"),
                _ => {}
            }
        }
        if let Some(log) = &mut log {
            log.flush(&mut ring);
        }
    }
}

fn arguments() -> Result<Options, Failure> {
    let (mut listen, mut durable, mut polls) = (None, None, false);
    let mut words = env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next().ok_or("every option needs a value")?;
        match word.as_str() {
            "--listen" => listen = Some(value.parse()?),
            "--durable" => durable = Some(value),
            "--driver" => polls = value == "poll",
            _ => return Err(format!("unknown option {word}").into()),
        }
    }
    let usage = "usage: echo --listen HOST:PORT [--driver poll] [--durable FILE]";
    Ok(Options { listen: listen.ok_or(usage)?, durable, polls })
}

/// Handles all complete frames. An incomplete last frame waits in `partial`.
fn receive(
    ring: &mut impl Driver,
    log: &mut Option<Log>,
    partial: &mut [Vec<u8>],
    conn: ConnId,
    data: &[u8],
) {
    let kept = &mut partial[conn.index()];
    let mut joined = std::mem::take(kept);
    let bytes = if joined.is_empty() {
        data
    } else {
        joined.extend_from_slice(data);
        &joined
    };
    let Some(whole) = whole_frames(bytes) else { return ring.close(conn) };
    let (frames, rest) = bytes.split_at(whole);
    kept.extend_from_slice(rest);
    if frames.is_empty() {
        return;
    }
    match log {
        Some(log) => log.append(conn, frames),
        None => answer(ring, conn, frames),
    }
}

/// How many bytes at the start of `bytes` are complete frames. None if a frame is too large.
fn whole_frames(bytes: &[u8]) -> Option<usize> {
    let mut whole = 0;
    while let Some((length, payload)) = bytes[whole..].split_first_chunk::<4>() {
        let length = u32::from_be_bytes(*length) as usize;
        if length > FRAME_BYTES_MAX {
            return None;
        }
        if payload.len() < length {
            break;
        }
        whole += 4 + length;
    }
    Some(whole)
}

/// Sends the frames back. Closes the connection if the client does not read its answers.
fn answer(ring: &mut impl Driver, conn: ConnId, frames: &[u8]) {
    if let Some(output) = ring.output(conn) {
        output.extend_from_slice(frames);
    }
    if ring.unsent(conn) > UNSENT_BYTES_MAX {
        ring.close(conn);
    }
}

/// A log of frames. While one batch of frames is written, further frames gather in the next batch.
struct Log {
    file: File,
    block_bytes: usize,
    offset: u64,
    gathering: Batch,
    /// The connections that wait for the write in flight, as in [`Batch::waiting`].
    waiting: Vec<(ConnId, usize)>,
    spare: Option<AlignedBuf>,
    writing: bool,
}

#[derive(Default)]
struct Batch {
    bytes: AlignedBuf,
    /// Connections with the number of bytes that each has appended, in the order of the bytes.
    waiting: Vec<(ConnId, usize)>,
}

impl Log {
    /// Creates a file full of zeros, so that later writes change no metadata.
    fn create(ring: &mut impl Driver, path: &Path) -> io::Result<Self> {
        let file = File::open_direct(path, true)?;
        let mut zeros = AlignedBuf::zeroed(1 << 20);
        for offset in (0..SEGMENT_BYTES).step_by(zeros.len()) {
            ring.write(&file, offset, zeros, Durability::Cached, 0);
            zeros = loop {
                match ring.next_event() {
                    Some(Event::Written { result, buf, .. }) => break result.map(|()| buf)?,
                    Some(_) => {}
                    None => ring.turn(Some(Duration::from_secs(1)))?,
                }
            };
        }
        file.std().sync_all()?;
        let block_bytes = file.block_bytes().unwrap_or(512);
        Ok(Self {
            file,
            block_bytes,
            offset: 0,
            gathering: Batch::default(),
            waiting: Vec::new(),
            spare: None,
            writing: false,
        })
    }

    fn append(&mut self, conn: ConnId, frames: &[u8]) {
        self.gathering.bytes.extend_from_slice(frames);
        self.gathering.waiting.push((conn, frames.len()));
    }

    fn flush(&mut self, ring: &mut impl Driver) {
        if self.writing || self.gathering.waiting.is_empty() {
            return;
        }
        let next = Batch {
            bytes: self.spare.take().unwrap_or_default(),
            waiting: std::mem::take(&mut self.waiting),
        };
        let mut batch = std::mem::replace(&mut self.gathering, next);
        let len = batch.bytes.len().next_multiple_of(self.block_bytes);
        batch.bytes.resize(len);
        if self.offset + len as u64 > SEGMENT_BYTES {
            self.offset = 0;
        }
        ring.write(&self.file, self.offset, batch.bytes, Durability::Durable, 0);
        self.offset += len as u64;
        self.waiting = batch.waiting;
        self.writing = true;
    }

    fn flushed(&mut self, ring: &mut impl Driver, mut bytes: AlignedBuf) {
        self.writing = false;
        let mut rest = &bytes[..];
        for (conn, len) in self.waiting.drain(..) {
            let (frames, after) = rest.split_at(len);
            answer(ring, conn, frames);
            rest = after;
        }
        bytes.clear();
        self.spare = Some(bytes);
    }
}
