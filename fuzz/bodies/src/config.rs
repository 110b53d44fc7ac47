//! Configs: a broker's properties file, and single values. Input: the text of a properties file.

use crate::memory::within;
use muster_server::config::{Config, GroupConfig, Key, TopicConfig};

const GRANTED_PER_BYTE: usize = 256;
const GRANTED_BYTES: usize = 256 << 10;

pub fn run(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    within(text.len() * GRANTED_PER_BYTE + GRANTED_BYTES, || read(&text));
}

fn read(text: &str) {
    if let Ok(config) = Config::load(text, &[]) {
        // These calls must not fail for any valid config.
        let _ =
            (config.coordinator(), config.topic_defaults(), config.set_without_effect().count());
    }
    let broker = Config::default();
    for (name, value) in text.lines().filter_map(|line| line.split_once('=')) {
        if let Some(key) = Config::key(name) {
            set(key, &broker, value);
        }
        if let Some(key) = TopicConfig::key(name) {
            set(key, &TopicConfig::from(&broker), value);
        }
        if let Some(key) = GroupConfig::key(name) {
            set(key, &GroupConfig::from(&broker), value);
        }
    }
}

/// Checks that the printed form of an accepted value is accepted, and means the same value.
fn set<C: Clone>(key: &Key<C>, defaults: &C, text: &str) {
    let (mut first, mut second) = (defaults.clone(), defaults.clone());
    if key.set(&mut first, text).is_err() {
        return;
    }
    let Some(shown) = key.get(&first).text() else { return };
    key.set(&mut second, &shown).unwrap();
    assert_eq!(key.get(&second), key.get(&first), "{}={text:?}", key.name);
    let printed = key.printed(text);
    key.set(&mut second, &printed).unwrap();
    assert_eq!(key.get(&second), key.get(&first), "{}={text:?} printed", key.name);
    assert_eq!(key.printed(&printed), printed, "{}={text:?} printed again", key.name);
}
