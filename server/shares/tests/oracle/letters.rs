//! The comparison of dead letters with Kafka's: the letters that are made, and their ends.

use crate::broker::Broker;
use crate::compare::{Differs, different};
use crate::json::{int, int_or, list, text};
use muster_shares::SharePartitionKey;
use serde_json::Value;
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub struct Letters {
    /// The number of records whose letters equalled Kafka's.
    pub compared: usize,
    are_held: bool,
    /// Kafka's letters that have not ended. Each has the number of its share partition, which
    /// changes when the share partition is opened again.
    held: Vec<Held>,
    /// muster's letters in the current operation: delivery count and cause, by offset.
    handed_over: BTreeMap<SharePartitionKey, BTreeMap<i64, (i64, &'static str)>>,
}

#[derive(Debug)]
struct Held {
    key: SharePartitionKey,
    number: Option<u64>,
    first: i64,
    last: i64,
}

impl Broker {
    /// Takes the letters of a share partition. They end at once, unless the test holds letters.
    /// Returns whether letters ended.
    pub fn hand_over(&mut self, key: &SharePartitionKey) -> bool {
        let settings = self.settings(&key.group_id);
        let Some(open) = self.open.get_mut(key) else { return false };
        let letters = open.partition.take_letters(&settings);
        for letter in &letters {
            let what = (i64::from(letter.delivery_count), letter.cause.words());
            let offsets = self.letters.handed_over.entry(key.clone()).or_default();
            offsets.extend((letter.first..=letter.last).map(|offset| (offset, what)));
            if !self.letters.are_held {
                open.partition.letter_ended(letter.first, letter.last);
            }
        }
        !letters.is_empty() && !self.letters.are_held
    }

    /// Ends some of the letters that are held. muster may divide the same records into other
    /// letters, so the bounds of Kafka's letters count.
    pub fn end_letters(&mut self, op: &Value) {
        let index = usize::try_from(int_or(&op["index"], 0)).unwrap();
        let mut count = int_or(&op["answer"], 0);
        match op["hold"].as_bool() {
            Some(true) => self.letters.are_held = true,
            Some(false) => {
                self.letters.are_held = false;
                count = i64::MAX;
            }
            None => {}
        }
        while count > 0 && index < self.letters.held.len() {
            count -= 1;
            let Held { key, number, first, last } = self.letters.held.remove(index);
            let open = self.open.get_mut(&key).filter(|open| Some(open.number) == number);
            if let Some(open) = open {
                open.partition.letter_ended(first, last);
                self.flush(&key);
                self.try_waiting(|it| *it == key);
            }
        }
    }

    pub fn compare_letters(&mut self, out: &Value) -> Vec<Differs> {
        let mut kafkas: BTreeMap<_, BTreeMap<_, (i64, &str)>> = BTreeMap::new();
        for letter in list(&out["dlq"]) {
            let at = self.at(letter);
            let key = SharePartitionKey::new(text(&letter["group"]), at.topic_id, at.partition);
            let (first, last) = (int(&letter["first"]), int(&letter["last"]));
            let what = (int(&letter["delivery_count"]), text(&letter["cause"]));
            let offsets = kafkas.entry(key.clone()).or_default();
            offsets.extend((first..=last).map(|offset| (offset, what)));
            if self.letters.are_held {
                let number = self.open.get(&key).map(|open| open.number);
                self.letters.held.push(Held { key, number, first, last });
            }
        }
        let ours = std::mem::take(&mut self.letters.handed_over);
        self.letters.compared += ours.values().map(BTreeMap::len).sum::<usize>();
        different(&ours, &kafkas)
    }
}
