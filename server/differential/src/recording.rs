//! A file with Kafka's part of histories: the requests, and Kafka's answers.
//!
//! Each line is one request. It has the prefix of the history's names, the connection, the version,
//! the flaw in the request's bytes, the request as JSON, and the answers that arrived before the
//! next request. An answer is its step and its frame without the length (in hexadecimal), or `-` if
//! the connection was closed. The file is compressed by gzip.

use crate::wire::{Ask, Completion, Flaw};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;

/// A request of a history, and Kafka's answers before the next request.
#[derive(Debug, Clone)]
pub struct Turn {
    pub line: usize,
    pub ask: Ask,
    pub done: Vec<Completion>,
}

/// A history: the prefix of its names, and its requests.
#[derive(Debug, Clone, Default)]
pub struct Recorded {
    pub prefix: String,
    pub turns: Vec<Turn>,
}

#[derive(Serialize, Deserialize)]
struct Row(String, usize, i16, Flaw, muster_codec::Request<'static>, Vec<(usize, String)>);

/// Writes histories to a file.
///
/// # Errors
/// The file cannot be written.
pub fn write(path: &Path, histories: &[Recorded]) -> io::Result<()> {
    let mut out = GzEncoder::new(File::create(path)?, Compression::best());
    for history in histories {
        for turn in &history.turns {
            let done = turn.done.iter().map(|one| (one.step, hex(one))).collect();
            let Ask { version, request, flaw } = turn.ask.clone();
            let row = Row(history.prefix.clone(), turn.line, version, flaw, request, done);
            serde_json::to_writer(&mut out, &row)?;
            out.write_all(b"\n")?;
        }
    }
    out.finish()?.sync_all()
}

/// Reads the histories of a file.
///
/// # Errors
/// The file cannot be read, or [`write()`] did not write it.
pub fn read(path: &Path) -> io::Result<Vec<Recorded>> {
    let mut histories: Vec<Recorded> = Vec::new();
    for line in BufReader::new(GzDecoder::new(File::open(path)?)).lines() {
        let Row(prefix, line, version, flaw, request, done) = serde_json::from_str(&line?)?;
        if histories.last().is_none_or(|last| last.prefix != prefix) {
            histories.push(Recorded { prefix, turns: Vec::new() });
        }
        let Some(history) = histories.last_mut() else { continue };
        let ask = Ask { version, request, flaw };
        history.turns.push(Turn { line, ask, done: Vec::new() });
        for (step, hex) in done {
            let answered = history.turns.get(step).map(|turn| turn.ask.clone());
            let answered = answered.ok_or_else(|| io::Error::other("an answer to no request"))?;
            let bytes = unhex(&hex)?;
            let answer = answered.read((hex != "-").then_some(&bytes));
            if let Some(turn) = history.turns.last_mut() {
                turn.done.push(Completion { step, answer, bytes });
            }
        }
    }
    Ok(histories)
}

fn hex(done: &Completion) -> String {
    if done.bytes.is_empty() {
        "-".into()
    } else {
        done.bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

fn unhex(text: &str) -> io::Result<Vec<u8>> {
    if text == "-" {
        return Ok(Vec::new());
    }
    let digits = text.as_bytes().chunks(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let bytes: Option<Vec<u8>> = digits.map(byte).collect();
    bytes.ok_or_else(|| io::Error::other("not hexadecimal"))
}
