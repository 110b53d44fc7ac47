//! The scenarios that come with muster-load: files that can be run by name, and copied.

/// A built-in scenario.
#[derive(Clone, Copy, Debug)]
pub struct BuiltIn {
    pub name: &'static str,
    /// The text of the scenario's file.
    pub toml: &'static str,
}

macro_rules! library {
    ($($name:literal),* $(,)?) => {
        &[$(BuiltIn {
            name: $name,
            toml: include_str!(concat!("../../scenarios/", $name, ".toml")),
        }),*]
    };
}

/// All built-in scenarios, the default first.
pub const BUILT_IN: &[BuiltIn] = library![
    "quick",
    "join-storm",
    "steady",
    "rolling-restart",
    "rolling-restart-static",
    "rolling-deploy",
    "subscription-change",
    "rolling-migration",
    "crash",
    "scale-up",
    "scale-down",
    "partition-growth",
    "commit",
    "fetch-offsets",
    "transactions",
    "share",
    "streams",
    "many-groups",
    "coordinator-restart",
    "mixed",
    "both-assignors",
    "soak",
];

pub fn built_in(name: &str) -> Option<&'static BuiltIn> {
    BUILT_IN.iter().find(|built_in| built_in.name == name)
}

impl BuiltIn {
    /// The description that the scenario's file contains, one line.
    pub fn description(&self) -> String {
        let file = toml::from_str::<super::Scenario>(self.toml);
        file.map_or_else(|error| error.to_string(), |scenario| scenario.description)
    }
}
