//! The traits of rules, their breaches and their canaries.

use crate::Workspace;

/// A rule of the workspace.
pub trait Rule: Sync {
    /// The name of the rule's table in `ratchet.toml`.
    fn name(&self) -> &'static str;

    /// The requirement, printed with the breaches.
    fn asks(&self) -> &'static str;

    /// All breaches in the workspace.
    fn breaches(&self, workspace: &Workspace) -> Vec<Breach>;

    /// Workspaces that break the rule, and similar ones that keep it.
    fn canary(&self) -> Canary;
}

/// One place that breaks a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Breach {
    /// The key under which the ratchet counts the breach.
    pub key: String,
    /// The amount by which the count of the key grows: one, or a length.
    pub amount: usize,
    /// The file and the line, or a similar description of the place.
    pub place: String,
}

impl Breach {
    /// A breach that counts as one.
    pub fn one(key: impl Into<String>, place: impl Into<String>) -> Self {
        Self { key: key.into(), amount: 1, place: place.into() }
    }

    /// A breach that has a key of its own, and whose size is its count.
    pub fn sized(key: impl Into<String>, amount: usize) -> Self {
        let key = key.into();
        let place = format!("{key}: {amount}");
        Self { key, amount, place }
    }
}

/// Test cases for a rule: places that it must find, and files in which it must find nothing.
#[derive(Default)]
pub struct Canary {
    breaks: Vec<(Workspace, Vec<String>)>,
    keeps: Vec<Workspace>,
}

impl Canary {
    /// Adds files that break the rule in exactly these places.
    pub fn breaks(self, files: &[(&str, &str)], places: &[&str]) -> Self {
        self.breaks_as(Workspace::of(files), places)
    }

    /// Adds files that keep the rule.
    pub fn keeps(self, files: &[(&str, &str)]) -> Self {
        self.keeps_as(Workspace::of(files))
    }

    pub fn breaks_as(mut self, workspace: Workspace, places: &[&str]) -> Self {
        self.breaks.push((workspace, places.iter().map(|it| (*it).to_owned()).collect()));
        self
    }

    pub fn keeps_as(mut self, workspace: Workspace) -> Self {
        self.keeps.push(workspace);
        self
    }

    /// Differences between the places that the rule must find and those that it finds.
    pub fn complaints(&self, rule: &dyn Rule) -> Vec<String> {
        let places = |workspace: &Workspace| -> Vec<String> {
            rule.breaches(workspace).into_iter().map(|it| it.place).collect()
        };
        let mut complaints = Vec::new();
        for (workspace, expected) in &self.breaks {
            let found = places(workspace);
            if expected.is_empty() || found != *expected {
                complaints.push(format!("{}: {found:?}, not {expected:?}", rule.name()));
            }
        }
        for workspace in &self.keeps {
            let found = places(workspace);
            if !found.is_empty() {
                complaints.push(format!("{}: {found:?}, where the rule is kept", rule.name()));
            }
        }
        if self.breaks.is_empty() {
            complaints.push(format!("{}: its canary breaks nothing", rule.name()));
        }
        complaints
    }
}
