//! Events of groups that operators see: rebalances that ended, members that were removed, clients
//! that were refused. All kinds of groups share one type.

use crate::client::Client;
use crate::text::{Text, prefix};
use alloc::vec::Vec;
use core::fmt::{self, Write as _};
use muster_codec::{ErrorCode, Wall};

/// The most bytes of a client-chosen name in an event. A longer name is cut.
pub const EVENT_NAME_BYTES_MAX: usize = 128;

/// The most bytes of the reason that a client gives for joining or leaving. A longer reason is cut.
/// Kafka's clients cut it at 255 characters.
pub const EVENT_REASON_BYTES_MAX: usize = 255;

/// The most members that the causes of a rebalance name.
pub const CAUSES_NAMED_MAX: usize = 4;

/// An event of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    pub group_id: Text,
    /// The group's protocol as in answers, such as `classic` or `consumer`.
    pub protocol: &'static str,
    pub at: Wall,
    pub body: EventBody,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventBody {
    /// A rebalance ended.
    Rebalanced(Rebalance),
    /// The coordinator removed a member, or another client replaced it.
    Removed(Removal),
    /// A client was refused as a member.
    Refused(Rejection),
}

/// A rebalance. In a classic group it lasts from the beginning of the join phase until the
/// assignment is durable; in other groups, from a new group epoch until all members have their
/// target. A rebalance that starts again before it ends counts as one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rebalance {
    /// The group epoch or generation that it led to.
    pub epoch: i32,
    pub began: Wall,
    pub took_ms: i64,
    /// How often it started again before it ended.
    pub restarts: u32,
    pub causes: Causes,
    /// The number of members at its end.
    pub members: u32,
    pub moved: Moved,
}

/// The partitions that moved to members which did not have them before.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Moved {
    /// The members that got partitions; in a classic group, the members whose assignment changed.
    pub members: u32,
    pub partitions: u32,
    /// Whether `partitions` is incomplete: some assignments were too long to compare, or not in the
    /// format of consumers.
    pub has_more: bool,
}

/// A member that was removed by the coordinator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removal {
    pub member_id: Text,
    pub client_id: Text,
    pub client_host: Text,
    pub why: Why,
    /// The time in milliseconds since the member's session last began, usually at a heartbeat.
    pub silent_ms: i64,
    /// The connection of the member's last request; None if that request came before the load.
    pub connection: Option<u64>,
}

/// A client that was refused as a member for a lasting reason: the client or a config has to
/// change. Other errors, such as the error that makes a member join again, cause no event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejection {
    pub client_id: Text,
    pub client_host: Text,
    pub error: ErrorCode,
}

impl Rejection {
    /// None if the error is not a lasting reason.
    pub(crate) fn of(client: Client<'_>, error: ErrorCode) -> Option<Self> {
        let lasts = matches!(
            error,
            ErrorCode::InvalidRegularExpression
                | ErrorCode::UnsupportedAssignor
                | ErrorCode::GroupMaxSizeReached
                | ErrorCode::InconsistentGroupProtocol
                | ErrorCode::InvalidSessionTimeout
                | ErrorCode::UnreleasedInstanceId
                | ErrorCode::FencedInstanceId
                | ErrorCode::StreamsInvalidTopology
                | ErrorCode::InvalidRequest
                | ErrorCode::UnknownServerError
        );
        let Client { id, host } = client;
        lasts.then(|| Self { client_id: event_name(id), client_host: event_name(host), error })
    }
}

/// An enum whose values have names.
macro_rules! named {
    ($(#[$of_all:meta])* $name:ident { $($(#[$doc:meta])* $value:ident = $text:literal,)* }) => {
        $(#[$of_all])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name {
            $($(#[$doc])* $value,)*
        }

        impl $name {
            pub const ALL: &[Self] = &[$(Self::$value),*];

            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$value => $text,)*
                }
            }
        }
    };
}

named! {
    /// Why a member was removed.
    Why {
        /// The member's session expired.
        Session = "session",
        /// The member did not revoke partitions within its rebalance timeout.
        Revocation = "revocation",
        /// The member did not join again within the rebalance timeout.
        Join = "join",
        /// The member did not send its SyncGroup within the rebalance timeout.
        Sync = "sync",
        /// Another client joined with the member's instance id.
        Replaced = "replaced",
    }
}

named! {
    /// A reason for which a group rebalances.
    Cause {
        Joined = "joined",
        Left = "left",
        /// A session expired.
        Expired = "expired",
        /// A member did not give up partitions, join or sync in time.
        Late = "late",
        /// A member changed its subscription.
        Subscribed = "subscribed",
        /// A member asked for a rebalance by joining again: a classic leader that found a change,
        /// members that gave up partitions, or a static member after a restart.
        Rejoined = "rejoined",
        /// A topic of the group was created, extended, moved to other racks or deleted.
        Topics = "topics",
        /// A regular expression now matches other topics.
        Expression = "expression",
        /// The group was loaded with more members than it may have.
        TooLarge = "too-large",
        /// The leader's assignment does not fit into a record.
        Unwritable = "unwritable",
    }
}

/// The causes of a rebalance: how often each cause occurred, and the first members.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Causes {
    counts: [u32; Cause::ALL.len()],
    named: Vec<CausedBy>,
}

/// A member that was a cause of a rebalance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CausedBy {
    pub cause: Cause,
    pub member_id: Text,
    /// The client of a member that left.
    pub client: Option<EventClient>,
    /// The reason for leaving or joining, in the client's own words.
    pub reason: Option<Text>,
}

/// The client of a member, in an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventClient {
    pub id: Text,
    pub host: Text,
}

impl CausedBy {
    /// The bytes of the client's id, its host and its reason.
    pub fn said_bytes(&self) -> usize {
        let client = self.client.as_ref().map_or(0, |it| it.id.len() + it.host.len());
        client + self.reason.as_ref().map_or(0, |it| it.len())
    }

    /// Stores the reason of a client, unless it is empty.
    fn take_reason(&mut self, reason: &str) {
        if !reason.is_empty() {
            self.reason = Some(Text::from(prefix(reason, EVENT_REASON_BYTES_MAX)));
        }
    }

    /// Whether the reason only repeats the member id. Each new member of a Java client joins with
    /// `need to re-join with the given member-id: ...`.
    fn is_said_by(&self, reason: &str) -> bool {
        reason.strip_suffix(&*self.member_id).is_some_and(|it| it.ends_with(": "))
    }
}

impl Causes {
    /// Adds a cause, and the member that caused it, if there is one.
    pub(crate) fn add(&mut self, cause: Cause, member_id: Option<&str>) {
        let count = &mut self.counts[cause as usize];
        *count = count.saturating_add(1);
        if let Some(member_id) = member_id
            && self.named.len() < CAUSES_NAMED_MAX
        {
            let member_id = event_name(member_id);
            self.named.push(CausedBy { cause, member_id, client: None, reason: None });
        }
    }

    /// Adds a member that left, with its client and the client's reason.
    pub(crate) fn add_left(&mut self, member_id: &str, client: Client<'_>, reason: Option<&str>) {
        let Client { id, host } = client;
        let named_before = self.named.len();
        self.add(Cause::Left, Some(member_id));
        for by in &mut self.named[named_before..] {
            by.client = Some(EventClient { id: event_name(id), host: event_name(host) });
            reason.into_iter().for_each(|it| by.take_reason(it));
        }
    }

    /// Adds a client's reason for joining to each cause that the join has added. A reason that only
    /// repeats the member id is left out.
    pub(crate) fn explain_join(&mut self, reason: &str) {
        let joins = [Cause::Joined, Cause::Subscribed, Cause::Rejoined];
        let named = self.named.iter_mut().filter(|it| joins.contains(&it.cause));
        named.filter(|it| !it.is_said_by(reason)).for_each(|it| it.take_reason(reason));
    }

    /// The bytes of all clients and reasons.
    pub(crate) fn said_bytes(&self) -> usize {
        self.named.iter().map(CausedBy::said_bytes).sum()
    }

    /// Forgets the clients and their reasons, and keeps the member ids.
    pub(crate) fn forget_said(&mut self) {
        self.named.iter_mut().for_each(|it| (it.client, it.reason) = (None, None));
    }

    pub(crate) fn append(&mut self, mut later: Self) {
        self.counts
            .iter_mut()
            .zip(later.counts)
            .for_each(|(all, it)| *all = all.saturating_add(it));
        later.named.truncate(CAUSES_NAMED_MAX.saturating_sub(self.named.len()));
        self.named.append(&mut later.named);
    }

    pub fn is_empty(&self) -> bool {
        self.counts.iter().all(|count| *count == 0)
    }

    /// The causes that occurred, each with its count.
    pub fn iter(&self) -> impl Iterator<Item = (Cause, u32)> {
        let all = Cause::ALL.iter().map(|cause| (*cause, self.counts[*cause as usize]));
        all.filter(|(_, count)| *count > 0)
    }

    /// The first members that caused the rebalance, in order.
    pub fn named(&self) -> &[CausedBy] {
        &self.named
    }

    /// The first members that caused the rebalance in this way, in order.
    pub fn named_for(&self, cause: Cause) -> impl Iterator<Item = &CausedBy> + Clone {
        self.named.iter().filter(move |it| it.cause == cause)
    }
}

/// The causes as text, such as `2 joined (a, b), 1 left (c of app at /10.0.0.1: 'the consumer is
/// being closed')`.
impl fmt::Display for Causes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (cause, count)) in self.iter().enumerate() {
            let comma = if place == 0 { "" } else { ", " };
            write!(f, "{comma}{count} {}", cause.name())?;
            let named = self.named_for(cause);
            for (place, by) in named.clone().enumerate() {
                write!(f, "{}{by}", if place == 0 { " (" } else { ", " })?;
            }
            if named.count() > 0 {
                f.write_str(")")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for CausedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Words(&self.member_id))?;
        if let Some(EventClient { id, host }) = &self.client {
            write!(f, " of {} at {}", Words(id), Words(host))?;
        }
        self.reason.as_ref().map_or(Ok(()), |reason| write!(f, ": {}", Words(reason)))
    }
}

/// A client's text in a log line. The text is quoted unless all its characters are usual in ids and
/// hosts: otherwise it could imitate other parts of the line.
struct Words<'w>(&'w str);

impl fmt::Display for Words<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_plain = |c: char| c.is_alphanumeric() || "-_./:#@+".contains(c);
        if !self.0.is_empty() && self.0.chars().all(is_plain) {
            return f.write_str(self.0);
        }
        f.write_char('\'')?;
        self.0.chars().try_for_each(|c| match c {
            '"' => f.write_char(c),
            c => write!(f, "{}", c.escape_debug()),
        })?;
        f.write_char('\'')
    }
}

/// A client-chosen name, cut to the limit of an event.
pub(crate) fn event_name(name: &str) -> Text {
    Text::from(prefix(name, EVENT_NAME_BYTES_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn causes_name_the_first_members_and_count_all() {
        let mut causes = Causes::default();
        assert_eq!((causes.is_empty(), causes.to_string().as_str()), (true, ""));
        ["a", "b", "c"].into_iter().for_each(|it| causes.add(Cause::Joined, Some(it)));
        causes.add(Cause::Topics, None);
        let mut later = Causes::default();
        ["d", "e"].into_iter().for_each(|it| later.add(Cause::Expired, Some(it)));
        causes.append(later);
        assert_eq!(causes.to_string(), "3 joined (a, b, c), 2 expired (d), 1 topics");
    }

    const CLIENT: Client<'_> = Client { id: "app", host: "/10.0.0.1" };

    #[test]
    fn a_reason_stands_behind_its_member_and_forges_no_other() {
        let mut causes = Causes::default();
        causes.add(Cause::Rejoined, Some("d"));
        causes.explain_join("I \"want\" one");
        causes.add_left("a", CLIENT, Some("consumer poll timeout has expired."));
        causes.add_left("b", CLIENT, Some("'), 2 expired (c\n"));
        causes.add_left("x y", CLIENT, None);
        causes.add_left("beyond the fourth", CLIENT, Some("why?"));
        let expected = "4 left (a of app at /10.0.0.1: 'consumer poll timeout has expired.', \
                        b of app at /10.0.0.1: '\\'), 2 expired (c\\n', \
                        'x y' of app at /10.0.0.1), \
                        1 rejoined (d: 'I \"want\" one')";
        assert_eq!(causes.to_string(), expected);
    }

    #[test]
    fn a_reason_that_says_no_more_than_the_member_id_is_none() {
        let mut causes = Causes::default();
        causes.add(Cause::Joined, Some("m-1"));
        causes.explain_join("need to re-join with the given member-id: m-1");
        assert_eq!(causes.to_string(), "1 joined (m-1)");
        causes.explain_join("need to re-join with the given member-id: m-2");
        let expected = "1 joined (m-1: 'need to re-join with the given member-id: m-2')";
        assert_eq!(causes.to_string(), expected);
    }

    #[test]
    fn a_long_name_and_a_long_reason_are_cut_between_characters() {
        let mut causes = Causes::default();
        let (name, reason) = ("ü".repeat(200), "ü".repeat(200));
        causes.add_left(&name, Client { id: &name, host: &name }, Some(&reason));
        let cut = Text::from("ü".repeat(64));
        let expected = CausedBy {
            cause: Cause::Left,
            member_id: cut.clone(),
            client: Some(EventClient { id: cut.clone(), host: cut }),
            reason: Some(Text::from("ü".repeat(127))),
        };
        assert_eq!(causes.named(), [expected]);
        causes.add(Cause::Left, Some(&("x".to_string() + &name)));
        assert_eq!(causes.named()[1].member_id.len(), EVENT_NAME_BYTES_MAX - 1);
    }
}
