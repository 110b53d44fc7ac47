//! The counts of existing breaches, which may only go down.

use crate::Breach;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

const HEAD: &str = "# What does not keep the rules yet. Each number may only go down:\n\
                    # TIDY_UPDATE=1 cargo test -p tidy lowers them.\n\n";

/// The file `ratchet.toml`: a table for each rule, with a count for each key.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ratchet(BTreeMap<String, BTreeMap<String, usize>>);

impl Ratchet {
    /// Reads `ratchet.toml`.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read() -> io::Result<Self> {
        let text = fs::read_to_string(path())?;
        toml::from_str(&text).map_err(io::Error::other)
    }

    /// Writes `ratchet.toml`.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self) -> io::Result<()> {
        let text = toml::to_string(self).map_err(io::Error::other)?;
        fs::write(path(), format!("{HEAD}{text}"))
    }

    /// Counts the breaches of a rule.
    pub fn count(&mut self, rule: &str, breaches: &[Breach]) {
        for breach in breaches {
            let keys = self.0.entry(rule.to_owned()).or_default();
            *keys.entry(breach.key.clone()).or_default() += breach.amount;
        }
    }

    /// The keys of a rule that have higher counts here than in an older ratchet. A key that the
    /// older one lacks has the count 0 there.
    pub fn above(&self, rule: &str, older: &Self) -> Vec<Excess> {
        let number = |ratchet: &Self, key: &str| {
            ratchet.0.get(rule).and_then(|keys| keys.get(key)).copied().unwrap_or(0)
        };
        let keys = self.0.get(rule).into_iter().flat_map(BTreeMap::keys);
        let excess = keys.map(|key| Excess {
            key: key.clone(),
            found: number(self, key),
            left: number(older, key),
        });
        excess.filter(|it| it.found > it.left).collect()
    }

    /// The rules that have a table.
    pub fn rules(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

/// A count that went up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excess {
    pub key: String,
    pub found: usize,
    pub left: usize,
}

fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("ratchet.toml")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_may_go_down_and_not_up() {
        let counted = |breaches: &[Breach]| {
            let mut ratchet = Ratchet::default();
            ratchet.count("rule", breaches);
            ratchet
        };
        let older = counted(&[Breach::one("a", "1"), Breach::one("a", "2"), Breach::sized("b", 9)]);
        let lower = counted(&[Breach::one("a", "1"), Breach::sized("b", 9)]);
        assert_eq!(lower.above("rule", &older), []);
        let higher = counted(&[Breach::sized("b", 10), Breach::one("c", "3")]);
        let excess = |key: &str, found, left| Excess { key: key.to_owned(), found, left };
        assert_eq!(higher.above("rule", &older), [excess("b", 10, 9), excess("c", 1, 0)]);
    }
}
