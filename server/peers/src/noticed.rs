//! The notices that were written lately. They are not repeated.

use crate::limits::{NOTICED_MAX, QUIET_MS};
use crate::output::Notice;

/// Each notice has the last time at which it was due.
#[derive(Debug, Default)]
pub(crate) struct Noticed(Vec<(Notice, i64)>);

impl Noticed {
    /// Whether the notice is to be written: it was not due for [`QUIET_MS`], and there are few
    /// others.
    pub(crate) fn is_new(&mut self, notice: &Notice, now: i64) -> bool {
        self.0.retain(|(_, due)| due + QUIET_MS > now);
        if let Some((_, due)) = self.0.iter_mut().find(|(it, _)| it == notice) {
            *due = now;
            return false;
        }
        let is_new = self.0.len() < NOTICED_MAX;
        if is_new {
            self.0.push((notice.clone(), now));
        }
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_replication::NodeId;

    #[test]
    fn a_notice_is_written_again_after_a_quiet_time() {
        let mut noticed = Noticed::default();
        let [one, other] = [1, 2].map(|it| Notice::Stuck(NodeId(it)));
        assert!(noticed.is_new(&one, 0));
        // The two alternate.
        for now in (1_000..10 * QUIET_MS).step_by(1_000) {
            assert_eq!(noticed.is_new(&other, now), now == 1_000);
            assert!(!noticed.is_new(&one, now));
        }
        assert!(!noticed.is_new(&one, 11 * QUIET_MS - 1_001));
        assert!(noticed.is_new(&one, 12 * QUIET_MS));
    }

    #[test]
    fn different_notices_have_a_limit() {
        let mut noticed = Noticed::default();
        let is_new = |it: u16| noticed.is_new(&Notice::Stuck(NodeId(it)), 0);
        assert_eq!((0..1_000).map(is_new).filter(|it| *it).count(), NOTICED_MAX);
    }
}
