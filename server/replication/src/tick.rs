//! Ticks of a process's clock, which show how old a message is.

use crate::ranks::ELECTION_TICKS;

/// A tick of a process's clock. A process counts its ticks from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Tick(pub u32);

impl Tick {
    /// No tick: nothing was heard of a process.
    pub const NONE: Self = Self(0);

    /// Whether the tick of this process that a message echoes is at most an election timeout old.
    /// If not, the message is no contact with its sender. A later tick than the newest one is the
    /// echo of an earlier process.
    pub fn is_fresh(self, echo: Self) -> bool {
        let age = self.0.checked_sub(echo.0);
        echo != Self::NONE && age.is_some_and(|it| it <= ELECTION_TICKS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_echo_is_fresh_for_an_election_timeout() {
        assert!(Tick(100).is_fresh(Tick(100)));
        assert!(Tick(100).is_fresh(Tick(80)));
        assert!(!Tick(100).is_fresh(Tick(79)));
        assert!(!Tick(100).is_fresh(Tick(101)));
        assert!(!Tick(1).is_fresh(Tick::NONE));
    }
}
