//! The newest known process of a node.
//!
//! A node has one process at a time. The number of a process does not show its age, so the order of
//! exchanges does. In an exchange this node says hello, and hears of a process that has read it: so
//! that process was alive after the beginning of the exchange.

use muster_replication::Session;

#[derive(Debug, Default)]
pub(crate) struct Process {
    session: Option<Session>,
    /// The process before the known one.
    replaced: Option<Session>,
    changes: u64,
}

/// The knowledge at the beginning of an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark(u64);

/// The process that was heard of does not replace the known one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Denied {
    /// It may be the older one.
    Uncertain,
    /// The known one has replaced it, and it was alive after that. So two processes of the node run
    /// at the same time.
    Both,
}

impl Process {
    pub(crate) fn mark(&self) -> Mark {
        Mark(self.changes)
    }

    /// The known process.
    pub(crate) fn session(&self) -> Option<Session> {
        self.session
    }

    /// An exchange has ended with this process. Another process than the known one is newer if it
    /// was alive when the known one was known already. Returns whether the process is a new one.
    ///
    /// A process that returns is denied while the known one is connected. Otherwise the two would
    /// replace each other for ever.
    pub(crate) fn learn(
        &mut self,
        session: Session,
        mark: Mark,
        is_connected: bool,
    ) -> Result<bool, Denied> {
        if self.session == Some(session) {
            return Ok(false);
        }
        if mark != self.mark() {
            return Err(Denied::Uncertain);
        }
        if is_connected && self.replaced == Some(session) {
            return Err(Denied::Both);
        }
        self.replaced = self.session.replace(session);
        self.changes += 1;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_newer_if_it_lived_when_the_other_was_known() {
        let mut process = Process::default();
        let first = process.mark();
        assert_eq!(process.learn(Session(1), first, true), Ok(true));
        assert_eq!(process.learn(Session(1), first, true), Ok(false));
        let second = process.mark();
        assert_eq!(process.learn(Session(2), second, true), Ok(true));
        assert_eq!(process.learn(Session(2), second, true), Ok(false));
        // This exchange began before the second process was known.
        assert_eq!(process.learn(Session(1), second, true), Err(Denied::Uncertain));
        assert_eq!(process.learn(Session(3), process.mark(), true), Ok(true));
    }

    /// It was alive before the other one, and after it.
    #[test]
    fn a_process_that_returns_is_denied_while_the_other_is_connected() {
        let mut process = Process::default();
        for session in [1, 2] {
            assert_eq!(process.learn(Session(session), process.mark(), true), Ok(true));
        }
        assert_eq!(process.learn(Session(1), process.mark(), true), Err(Denied::Both));
        assert_eq!(process.session(), Some(Session(2)));
        assert_eq!(process.learn(Session(1), process.mark(), false), Ok(true));
        assert_eq!(process.learn(Session(2), process.mark(), true), Err(Denied::Both));
    }
}
