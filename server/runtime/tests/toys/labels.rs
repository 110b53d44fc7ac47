//! A toy topic of labels: names, each with a text. A label may be replayed twice, unlike a sum, so
//! the log of labels can be compacted and rewritten.

use super::{Record, rule};
use muster_codec::record_batch::{Batch, Producer};
use muster_codec::{DecodeError, Reader};
use muster_runtime::{
    Audited, CheckCopy, Damage, Digest, Machine, NextId, Opened, SectionAt, damaged, replayed,
};
use muster_storage::TopicRule;
use muster_storage::snapshot::Part;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

/// The labels of a partition.
#[derive(Debug, Default)]
pub struct Labels {
    pub all: BTreeMap<String, Label>,
    /// The position up to which a snapshot contains all records.
    in_snapshot: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label {
    pub text: String,
    /// The length of the text, which an audit compares with it.
    pub len: usize,
}

/// The number of labels that are written to a snapshot at a time.
const PIECE_LABELS: usize = 4;

/// The written part of a section, and the last label in it.
pub type Walk = (Part, Option<String>);

impl Labels {
    fn put(&mut self, key: &[u8], value: Option<&[u8]>) {
        let words = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        match value.map(words) {
            Some(text) => self.all.insert(words(key), Label { len: text.len(), text }),
            None => self.all.remove(&words(key)),
        };
    }

    fn after<'a>(&'a self, name: Option<&str>) -> impl Iterator<Item = (&'a String, &'a Label)> {
        self.all.range::<str, _>((name.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded))
    }
}

impl Machine for Labels {
    const RULE: TopicRule = rule(2, true);
    const SECTIONS: &'static [&'static str] = &["labels"];

    type Record<'r> = Record<'r>;
    type Held = i64;
    type Walk = Walk;
    /// The last label that was passed.
    type Restating = Option<String>;
    type Place = String;
    type Shared = ();

    fn apply(&mut self, operation: &[Record<'_>], _position: u64) {
        operation.iter().for_each(|(key, value)| self.put(key, *value));
    }

    fn replay(&mut self, batch: &Batch<'_>, position: u64) -> Result<bool, DecodeError> {
        if position <= self.in_snapshot {
            return Ok(false);
        }
        for record in replayed(batch)? {
            let record = record?;
            record.key.iter().for_each(|key| self.put(key, record.value));
        }
        Ok(true)
    }

    fn held(&self) -> i64 {
        self.all.len() as i64
    }

    fn next_deadline(&self) -> Option<i64> {
        None
    }

    fn begin_after(&mut self, position: u64) {
        self.in_snapshot = position;
    }

    fn begin_section(&self, _section: u8, at: SectionAt) -> Option<Walk> {
        (!self.all.is_empty()).then(|| (Part::of(at.file_at, &[]), None))
    }

    fn write_section(
        &mut self,
        (part, last): &mut Walk,
        _at: SectionAt,
        _bytes: usize,
        out: &mut Vec<u8>,
    ) -> Result<Option<Part>, Damage> {
        let begin = last.clone();
        let mut rest = self.after(begin.as_deref());
        for (name, label) in rest.by_ref().take(PIECE_LABELS) {
            let mut bytes = Vec::new();
            for words in [name, &label.text] {
                bytes.extend((words.len() as i32).to_be_bytes());
                bytes.extend(words.as_bytes());
            }
            (*part, *last) = (part.followed_by(&bytes), Some(name.clone()));
            out.extend(bytes);
        }
        Ok(rest.next().is_none().then_some(*part))
    }

    fn open_section(&mut self, _section: u8, opened: Opened<'_>) -> Result<(), Damage> {
        self.in_snapshot = opened.from;
        let mut reader = Reader::new(opened.bytes()?);
        let mut words = || reader.i32().and_then(|len| reader.take(len as usize));
        while let Ok(name) = words() {
            let text = words().map_err(damaged)?;
            self.put(name, Some(text));
        }
        Ok(())
    }

    fn restate(
        &mut self,
        last: &mut Option<String>,
        count: usize,
        take: &mut dyn FnMut(Option<Producer>, &Record<'_>),
    ) -> Result<bool, Damage> {
        let begin = last.clone();
        let mut rest = self.after(begin.as_deref());
        for (name, label) in rest.by_ref().take(count) {
            take(None, &(name.as_bytes(), Some(label.text.as_bytes())));
            *last = Some(name.clone());
        }
        Ok(rest.next().is_some())
    }

    fn audit_after(&mut self, last: Option<&String>) -> Option<Audited<String>> {
        let (name, Label { text, len }) = self.after(last.map(String::as_str)).next()?;
        let is_right = text.len() == *len;
        let found = if is_right { Ok(()) } else { Err(format!("label {name:?} has {len} bytes")) };
        Some((name.clone(), found))
    }

    fn copy(&self, _salt: u64, halvings: u32) -> Option<Box<dyn CheckCopy>> {
        Some(Box::new(LabelsCopy(Self::default(), halvings)))
    }

    fn next_id(
        &mut self,
        after: Option<&Arc<str>>,
        visits: usize,
        is_wanted: &dyn Fn(&str) -> bool,
    ) -> NextId {
        let names = self.after(after.map(|it| &**it)).map(|(name, _)| name.as_str());
        NextId::among(names, after, visits, is_wanted)
    }

    fn digest(&mut self, id: &str, _items_max: usize) -> Option<Digest> {
        let hash = |label: &Label| {
            let bytes = label.text.bytes().map(u64::from);
            bytes.fold(1, |hash: u64, byte| hash.wrapping_mul(31).wrapping_add(byte))
        };
        Some(Digest { fingerprint: self.all.get(id).map(hash), items: 1 })
    }
}

/// Labels that are replayed from the log, and the halvings of their sample.
#[derive(Debug)]
struct LabelsCopy(Labels, u32);

impl CheckCopy for LabelsCopy {
    fn noun(&self) -> &'static str {
        "label"
    }

    fn halvings(&self) -> u32 {
        self.1
    }

    fn has(&self, _id: &str) -> bool {
        true
    }

    fn replay(&mut self, batch: &Batch<'_>) -> Result<(), DecodeError> {
        self.0.replay(batch, 1).map(drop)
    }

    fn next(&self, after: Option<&Arc<str>>) -> Option<Arc<str>> {
        self.0.after(after.map(|it| &**it)).next().map(|(name, _)| name.as_str().into())
    }

    fn digest(&mut self, id: &str) -> Digest {
        Machine::digest(&mut self.0, id, usize::MAX).unwrap()
    }
}
