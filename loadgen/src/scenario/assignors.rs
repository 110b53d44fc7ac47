//! The assignors of classic members, by name.

use crate::plan::ClassicAssignor;

/// The assignors with these Kafka names. Without names, the default of Java consumers.
pub(super) fn classic_assignors(names: &[String]) -> Result<Vec<ClassicAssignor>, String> {
    use ClassicAssignor::{CooperativeSticky, Range, RoundRobin, Sticky};
    if names.is_empty() {
        return Ok(vec![Range, CooperativeSticky]);
    }
    let assignor = |name: &String| match name.as_str() {
        "range" => Ok(Range),
        "roundrobin" => Ok(RoundRobin),
        "sticky" => Ok(Sticky),
        "cooperative-sticky" => Ok(CooperativeSticky),
        other => Err(format!(
            "classic members have no assignor {other}: there are range, roundrobin, sticky and \
             cooperative-sticky"
        )),
    };
    names.iter().map(assignor).collect()
}
