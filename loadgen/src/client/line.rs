//! The lines of clients: JSON objects in a small format (SCENARIOS.md), or the lines that kcat
//! prints. Other lines are ignored.

use serde::Deserialize;

use super::What;

/// A topic's name and the number of a partition.
pub(super) type Named = (String, u32);

/// The content of a line of a client.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(tag = "event", content = "partitions", rename_all = "lowercase")]
pub(super) enum Said {
    Assigned(Vec<Named>),
    Revoked(Vec<Named>),
    Lost(Vec<Named>),
    Alive,
}

/// `None` for a line that is not meant for muster-load.
pub(super) fn understood(line: &str) -> Option<What> {
    if let Some(said) = of_kcat(line) {
        return Some(What::Said(said));
    }
    let object: serde_json::Map<String, serde_json::Value> = serde_json::from_str(line).ok()?;
    let event = object.get("event")?.as_str()?;
    if !["assigned", "revoked", "lost", "alive"].contains(&event) {
        return None;
    }
    Some(match serde_json::from_str(line) {
        Ok(said) => What::Said(said),
        Err(error) => What::Slip(format!("a line with event {event:?} is malformed: {error}")),
    })
}

/// Reads a line of kcat: `% Group g rebalanced (memberid m): assigned: orders [0], orders [1]`
fn of_kcat(line: &str) -> Option<Said> {
    let rest = line.strip_prefix("% Group ")?;
    let (_, rest) = rest.split_once(" rebalanced (")?;
    let (_, rest) = rest.split_once("): ")?;
    let (what, list) = rest.split_once(": ").unwrap_or((rest.trim_end_matches(':'), ""));
    let partitions = list.split(", ").filter(|one| !one.is_empty()).map(partition_of_kcat);
    let partitions = partitions.collect::<Option<Vec<Named>>>()?;
    match what {
        "assigned" => Some(Said::Assigned(partitions)),
        "revoked" => Some(Said::Revoked(partitions)),
        _ => None,
    }
}

fn partition_of_kcat(text: &str) -> Option<Named> {
    let (topic, number) = text.trim().strip_suffix(']')?.rsplit_once(" [")?;
    Some((topic.to_owned(), number.parse().ok()?))
}
