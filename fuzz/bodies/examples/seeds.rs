//! Writes the initial inputs of the fuzz targets, from the vectors of the tests: `cargo run -p
//! muster-fuzz-bodies --example seeds -- <directory>`.

#![allow(clippy::unwrap_used)]

#[path = "../../../storage/tests/common/mod.rs"]
mod disk;

use disk::{Disk, compacting_config, settle};
use flate2::read::GzDecoder;
use muster_codec::ApiKey;
use muster_codec::header::RequestHeader;
use muster_codec::record_batch::{BatchBuilder, Batches};
use muster_fuzz_bodies::import::{FILES, PARTIAL, REPAIRS, WITH_DATA, WRITES};
use muster_fuzz_bodies::peers;
use muster_peers::frame::HEAD_BYTES as FRAME_HEAD_BYTES;
use muster_peers::hello::HELLO_PREFIX_BYTES;
use muster_storage::{LogPartition, Recovered, ShardLog};
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

fn main() {
    let out = PathBuf::from(std::env::args().nth(1).expect("a directory"));
    let mut seeds = Seeds { out, count: 0 };
    seeds.messages();
    seeds.records();
    seeds.batches();
    seeds.regexes();
    seeds.configs();
    seeds.segments();
    seeds.snapshots();
    seeds.imports();
    seeds.peers();
    println!("{} seeds", seeds.count);
}

/// The bytes of a recording in hexadecimal digits.
fn recorded(path: &str) -> Vec<u8> {
    unhex(&fs::read_to_string(repository(path)).unwrap().replace('\n', ""))
}

struct Seeds {
    out: PathBuf,
    count: usize,
}

impl Seeds {
    fn write(&mut self, target: &str, bytes: &[u8]) {
        let directory = self.out.join(target);
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join(format!("seed-{}", self.count)), bytes).unwrap();
        self.count += 1;
    }

    /// Writes a body for each API and version. Requests are written as frames, too.
    fn messages(&mut self) {
        let mut text = String::new();
        let file = File::open(repository("codec/tests/data/message-vectors.tsv.gz")).unwrap();
        GzDecoder::new(file).read_to_string(&mut text).unwrap();
        for line in text.lines() {
            let columns: Vec<&str> = line.split('\t').collect();
            let Some(api) = ApiKey::from_key(columns[0].parse().unwrap()) else { continue };
            let version: i16 = columns[3].parse().unwrap();
            let body = unhex(columns.get(4).unwrap_or(&""));
            if !api.versions().contains(&version) || body.len() > 400 {
                continue;
            }
            let seed = [&[api as u8, version as u8][..], &body].concat();
            if columns[2] == "req" {
                self.write("requests", &seed);
                self.frame(api, version, &body);
            } else {
                self.write("responses", &seed);
            }
        }
    }

    fn frame(&mut self, api_key: ApiKey, api_version: i16, body: &[u8]) {
        let (api_key, client_id) = (api_key as i16, Some("c".into()));
        let header = RequestHeader { api_key, api_version, correlation_id: 1, client_id };
        let mut frame = Vec::new();
        header.write(&mut frame);
        frame.extend_from_slice(body);
        let length = (frame.len() as i32).to_be_bytes();
        self.write("frames", &[&[1, 7][..], &length, &frame].concat());
    }

    fn records(&mut self) {
        let text = fs::read_to_string(repository("codec/tests/data/record-vectors.tsv")).unwrap();
        let mut log = Vec::new();
        for line in text.lines().skip(1) {
            let columns: Vec<&str> = line.split('\t').collect();
            let (key, value) = (unhex(columns[4]), unhex(columns[5]));
            let (Ok(key_len), Ok(value_len)) = (u8::try_from(key.len()), u8::try_from(value.len()))
            else {
                continue;
            };
            self.write("records", &[&[1, key_len][..], &key, &value].concat());
            log.extend([&[key_len, value_len][..], &key, &value].concat());
        }
        self.write("snapshot_groups", &[&[0, 0][..], &log].concat());
        self.write("replay", &log);
    }

    /// Writes batches of one to five records.
    fn batches(&mut self) {
        for count in 1..=5 {
            let mut builder = BatchBuilder::default();
            (0..count).for_each(|time| builder.append(time, &(&b"key"[..], Some(&b"value"[..]))));
            let batch = builder.seal(0, -1).to_vec();
            self.write("batches", &[&[0][..], &batch].concat());
            let length = (batch.len() as u16).to_be_bytes();
            let segment = [&[1][..], &[0; 28], &[0], &length, &batch].concat();
            self.write("partition_recovery", &segment);
        }
    }

    /// Writes a frame, its messages, a hello, and events of a shard.
    fn peers(&mut self) {
        let frame = recorded("server/peers/tests/data/frame.txt");
        let hello = recorded("server/peers/tests/data/hello.txt");
        self.write("peers", &[&[peers::FRAMES, 5][..], &frame, &frame].concat());
        self.write("peers", &[&[peers::MESSAGES][..], &frame[FRAME_HEAD_BYTES..]].concat());
        self.write("peers", &[&[peers::HELLO][..], &hello[HELLO_PREFIX_BYTES..]].concat());
        self.write("peers", &[&[peers::HELLO][..], &hello].concat());
        for seed in 1..=20_u32 {
            let bytes = (1..=400_u32).map(|it| (it.wrapping_mul(seed * 2_654_435) >> 13) as u8);
            self.write("peers", &[peers::SHARD].into_iter().chain(bytes).collect::<Vec<u8>>());
        }
    }

    fn regexes(&mut self) {
        let path = repository("server/coordinator/tests/data/regex/verdicts.tsv");
        for line in fs::read_to_string(path).unwrap().lines().step_by(20) {
            let words: Vec<&str> = line.split('\t').collect();
            self.write("regex", words.join("\n").as_bytes());
        }
    }

    fn configs(&mut self) {
        let lines = |keys: &mut dyn Iterator<Item = (&str, Option<String>)>| -> String {
            keys.map(|(name, text)| format!("{name}={}\n", text.unwrap_or_default())).collect()
        };
        let broker = muster_server::config::Config::default();
        let keys = muster_server::config::Config::KEYS.iter();
        let text = lines(&mut keys.map(|key| (key.name, key.get(&broker).text())));
        self.write("config", text.as_bytes());
        for line in text.lines() {
            self.write("config", line.as_bytes());
        }
    }

    /// Writes a file that is longer than the header of a snapshot.
    fn snapshots(&mut self) {
        self.write("snapshot_file", &[1; 200]);
    }

    /// Writes the segments of a small log.
    fn segments(&mut self) {
        let (mut disk, config) = (Disk::default(), compacting_config());
        let mut log = ShardLog::new(config.clone(), Recovered::default());
        for now in 0..20 {
            log.append(
                LogPartition { topic: 0, index: 0 },
                now,
                [(&b"key"[..], Some(&b"value"[..]))],
            )
            .unwrap();
            settle(&mut log, &mut disk, now);
        }
        let mut seed = Vec::new();
        for (sequence, bytes) in (1..).zip(disk.dir(&config.dir).values()) {
            seed.push(sequence);
            seed.extend((bytes.len() as u16).to_be_bytes());
            seed.extend_from_slice(bytes);
        }
        self.write("recovery", &seed);
    }
}

impl Seeds {
    /// Writes the files of Kafka that the tests of the import use: logs of groups of all kinds,
    /// logs with all compression types, and the log of Kafka's controllers.
    fn imports(&mut self) {
        let mut all = vec![WITH_DATA | PARTIAL | WRITES];
        for (place, name) in (0u8..).zip(FILES) {
            let Some(name) = name.strip_prefix("a/") else { continue };
            let Ok(bytes) = fs::read(repository("muster/tests/data/kafka").join(name)) else {
                continue;
            };
            let batches = if name.ends_with(".log") {
                Batches::new(&bytes).map(|batch| batch.unwrap().bytes).collect()
            } else {
                vec![&bytes[..]]
            };
            for batch in batches {
                self.write("import", &[&[REPAIRS | PARTIAL][..], &file(place, batch)].concat());
            }
            if bytes.len() < 1_400 {
                all.extend(file(place, &bytes));
            }
        }
        self.write("import", &all);
    }
}

fn file(place: u8, bytes: &[u8]) -> Vec<u8> {
    [&[place][..], &(bytes.len() as u16).to_be_bytes(), bytes].concat()
}

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect()
}
