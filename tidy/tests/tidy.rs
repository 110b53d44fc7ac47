//! Checks that the workspace keeps the rules, except for the breaches that `ratchet.toml` counts,
//! and that each rule can fail.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use tidy::{RULES, Ratchet, Workspace};

#[test]
fn nothing_is_added_to_what_breaks_the_rules() {
    let workspace = Workspace::read().unwrap();
    let left = Ratchet::read().unwrap();
    let mut found = Ratchet::default();
    let mut excess = Vec::new();
    for rule in RULES {
        let breaches = rule.breaches(&workspace);
        found.count(rule.name(), &breaches);
        for above in found.above(rule.name(), &left) {
            let title = format!(
                "{}: {}: {}, and {} were left; {}",
                rule.name(),
                above.key,
                above.found,
                above.left,
                rule.asks()
            );
            let places = breaches.iter().filter(|it| it.key == above.key).map(|it| &*it.place);
            println!("{title}\n    {}", places.collect::<Vec<_>>().join("\n    "));
            excess.push(title);
        }
    }
    assert!(excess.is_empty(), "{}", excess.join("\n"));
    if std::env::var_os("TIDY_UPDATE").is_some() {
        found.write().unwrap();
    }
}

#[test]
fn each_rule_fails_on_its_canary_and_on_nothing_beside_it() {
    let complaints: Vec<String> =
        RULES.iter().flat_map(|rule| rule.canary().complaints(*rule)).collect();
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn the_ratchet_has_the_tables_of_rules() {
    let names: BTreeSet<&str> = RULES.iter().map(|it| it.name()).collect();
    assert_eq!(names.len(), RULES.len(), "two rules have one name");
    let ratchet = Ratchet::read().unwrap();
    let unknown: Vec<&str> = ratchet.rules().filter(|it| !names.contains(it)).collect();
    assert_eq!(unknown, [] as [&str; 0]);
}
