//! Sums of the numbers of several parts, by name, printed as text.

use crate::{Kind, Labels, Metric, Value, Walk};
use alloc::collections::BTreeMap;
use alloc::string::String;
use core::fmt::{self, Write};

/// Sums by name and labels. For a histogram, the number of its values is added.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Totals(BTreeMap<String, (Kind, u64)>);

impl Totals {
    /// Adds the numbers of a part.
    pub fn count(&mut self, part: &dyn Walk) {
        part.walk(&mut |metric, labels, value| {
            let number = match value {
                Value::Number(number) => number,
                Value::Histogram(histogram) => histogram.count(),
            };
            self.add_number(&name(metric, labels), metric.kind, number);
        });
    }

    pub fn add(&mut self, other: &Self) {
        other.0.iter().for_each(|(name, (kind, number))| self.add_number(name, *kind, *number));
    }

    /// The sum for a name; 0 if no part has this number.
    pub fn of(&self, name: &str) -> u64 {
        self.0.get(name).map_or(0, |(_, number)| *number)
    }

    /// The names of the counters without labels that are still 0.
    pub fn zeros(&self) -> impl Iterator<Item = &str> {
        let zeros = self.0.iter().filter(|(_, total)| **total == (Kind::Counter, 0));
        zeros.map(|(name, _)| name.as_str()).filter(|name| !name.ends_with('}'))
    }

    fn add_number(&mut self, name: &str, kind: Kind, number: u64) {
        let (_, total) = self.0.entry(name.into()).or_insert((kind, 0));
        *total = total.saturating_add(number);
    }
}

/// Prints the numbers that are not zero.
impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.0.iter().filter(|(_, (_, number))| *number > 0);
        for (place, (name, (_, number))) in shown.enumerate() {
            let comma = if place == 0 { "" } else { ", " };
            write!(f, "{comma}{name} {number}")?;
        }
        Ok(())
    }
}

/// A metric's name with its labels: `clients_requests{api="Fetch"}`.
fn name(metric: &Metric, labels: Labels<'_>) -> String {
    let mut name = String::from(metric.name);
    for (place, (label, value)) in labels.iter().enumerate() {
        name.push(if place == 0 { '{' } else { ',' });
        // Writing to a string cannot fail.
        let _ = write!(name, "{label}=\"{value}\"");
    }
    if !labels.is_empty() {
        name.push('}');
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Histogram, counters};
    use alloc::string::ToString;
    use alloc::vec::Vec;

    counters! {
        struct Doors in "doors" {
            /// Visitors who rang,
            /// or knocked.
            rings: u64 = Counter of Count,
            /// Doors that are open.
            open: u64 = Gauge of Count,
            /// The time for which a visitor waited.
            waits: Histogram = Counter of Microseconds,
        }
    }

    #[test]
    fn parts_are_added_up_by_name() {
        let (mut one, mut totals) = (Doors::default(), Totals::default());
        totals.count(&one);
        assert_eq!(totals.zeros().collect::<Vec<_>>(), ["doors_rings", "doors_waits"]);
        assert_eq!((totals.of("doors_open"), totals.of("windows_open")), (0, 0));
        one.rings += 2;
        one.waits.record(300);
        totals.count(&one);
        let other = Doors { rings: 1, open: 4, ..Doors::default() };
        totals.count(&(other.clone() + other));
        assert_eq!(totals.to_string(), "doors_open 8, doors_rings 4, doors_waits 1");
        totals.add(&totals.clone());
        assert_eq!(totals.to_string(), "doors_open 16, doors_rings 8, doors_waits 2");
    }

    #[test]
    fn a_field_is_declared_once_with_all_that_is_known_of_it() {
        let mut found = Vec::new();
        Doors::default().walk(&mut |metric, _, _| found.push(*metric));
        assert_eq!(found[0].help, "Visitors who rang, or knocked.");
        assert_eq!((found[1].kind, found[2].unit), (Kind::Gauge, crate::Unit::Microseconds));
        let labels: Labels<'_> = &[("of", "cellar"), ("side", "left")];
        assert_eq!(name(&found[0], labels), "doors_rings{of=\"cellar\",side=\"left\"}");
    }
}
