//! What a rule is, what breaks it, and how it shows that it can be broken.

use crate::Workspace;

/// A rule of the workspace.
pub trait Rule: Sync {
    /// The name of its table in `ratchet.toml`.
    fn name(&self) -> &'static str;

    /// What it asks for, printed with its breaches.
    fn asks(&self) -> &'static str;

    /// Everything in the workspace that breaks it.
    fn breaches(&self, workspace: &Workspace) -> Vec<Breach>;

    /// Workspaces that break the rule, and those that keep it though they look alike.
    fn canary(&self) -> Canary;
}

/// One place that breaks a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Breach {
    /// Under which the ratchet counts it.
    pub key: String,
    /// What it adds to the number of its key: one, or a length.
    pub amount: usize,
    /// The file, with a line or what else leads there.
    pub place: String,
}

impl Breach {
    /// Another breach under a key.
    pub fn one(key: impl Into<String>, place: impl Into<String>) -> Self {
        Self { key: key.into(), amount: 1, place: place.into() }
    }

    /// A breach that is measured, and is its own key.
    pub fn sized(key: impl Into<String>, amount: usize) -> Self {
        let key = key.into();
        let place = format!("{key}: {amount}");
        Self { key, amount, place }
    }
}

/// The places that a rule must find, and the places that it must not find.
#[derive(Default)]
pub struct Canary {
    breaks: Vec<(Workspace, Vec<String>)>,
    keeps: Vec<Workspace>,
}

impl Canary {
    /// Files that break the rule in these places, and no others.
    pub fn breaks(self, files: &[(&str, &str)], places: &[&str]) -> Self {
        self.breaks_as(Workspace::of(files), places)
    }

    /// Files that keep the rule.
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

    /// The places that the rule must find and does not find, and the reverse.
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
