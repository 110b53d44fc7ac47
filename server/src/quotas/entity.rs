//! The entities that may have quotas.

use std::sync::Arc;

/// The clients to which a quota applies (Kafka's `ClientQuotaEntity`).
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Entity {
    User(Name),
    Client(Name),
    UserAndClient(Name, Name),
    Ip(Name),
}

/// A name. Or the default, which stands for all names that have no quota of their own.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Name {
    Default,
    Of(Arc<str>),
}

impl Name {
    pub fn of(name: &str) -> Self {
        Self::Of(name.into())
    }

    /// The name; None for the default.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Default => None,
            Self::Of(name) => Some(name),
        }
    }
}

pub(crate) const USER: &str = "user";
pub(crate) const CLIENT_ID: &str = "client-id";
pub(crate) const IP: &str = "ip";

impl Entity {
    /// The one or two parts of the entity. Each has a kind, as Kafka names it, and a name.
    pub fn parts(&self) -> impl Iterator<Item = (&'static str, &Name)> {
        let (first, second) = match self {
            Self::User(user) => ((USER, user), None),
            Self::Client(client_id) => ((CLIENT_ID, client_id), None),
            Self::UserAndClient(user, client_id) => ((USER, user), Some((CLIENT_ID, client_id))),
            Self::Ip(ip) => ((IP, ip), None),
        };
        std::iter::once(first).chain(second)
    }

    /// The part of this kind; `kind` is Kafka's name.
    pub fn part(&self, kind: &str) -> Option<&Name> {
        self.parts().find(|(own, _)| *own == kind).map(|(_, name)| name)
    }
}
