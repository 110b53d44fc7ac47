//! The requirements that a listener has for its clients.

use super::mechanism::Mechanism;
use super::oauthbearer::Bearer;
use super::plain::PlainUsers;

/// How clients prove who they are.
#[derive(Debug, Clone)]
pub(crate) struct Sasl {
    pub(crate) mechanisms: Vec<Mechanism>,
    pub(crate) plain_users: PlainUsers,
    /// None without OAUTHBEARER.
    pub(crate) bearer: Option<Bearer>,
    /// How long a client of each mechanism stays authenticated, in ms; for ever if it is not above
    /// 0.
    pub(crate) lifetimes_ms: Vec<(Mechanism, i64)>,
    /// The longest frame of a client that is not authenticated.
    pub(crate) receive_bytes_max: u32,
}

impl Sasl {
    /// The names of the mechanisms, in the order of the configs.
    pub(crate) fn mechanisms(&self) -> impl Iterator<Item = &'static str> {
        self.mechanisms.iter().map(|mechanism| mechanism.name())
    }

    /// How long a client stays authenticated, in ms; None for ever.
    pub(crate) fn lifetime_ms(&self, mechanism: Mechanism) -> Option<i64> {
        let (_, ms) = self.lifetimes_ms.iter().find(|(of, _)| *of == mechanism)?;
        Some(*ms).filter(|ms| *ms > 0)
    }
}
