//! The regular expressions to which members subscribe, and the topics that match them.

use super::member::Profile;
use super::{Consumer, ConsumerGroup, records};
use crate::context::Describes;
use crate::event::Cause;
use crate::modern::kind::Kind as _;
use crate::modern::{Draft, Refusal, refuse};
use crate::regex::{Regex, Resolution};
use crate::text::Text;
use crate::timers::{Timer, TimerKey};
use crate::turn::Turn;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use muster_codec::ErrorCode;

/// The most matching steps of one slice: about half a millisecond.
const SLICE: usize = 100_000;

/// The least time between two resolutions of a group's expressions.
const RESOLUTIONS_MIN_INTERVAL_MS: i64 = 10_000;

/// The topics that match an expression. They are the content of its record.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Resolved {
    /// The names of the topics, sorted.
    pub(crate) topics: Vec<Text>,
    /// The version of the topics when the expression was resolved.
    pub(crate) version: i64,
    /// The time of the resolution, in milliseconds since 1970.
    pub(crate) timestamp: i64,
}

impl Resolved {
    pub(crate) fn has(&self, topic: &str) -> bool {
        self.topics.binary_search_by(|it| (**it).cmp(topic)).is_ok()
    }
}

#[derive(Debug, Default)]
struct Expression {
    members: usize,
    resolved: Option<Resolved>,
}

/// The expressions of a group.
#[derive(Debug, Default)]
pub(crate) struct Regexes {
    expressions: BTreeMap<Text, Expression>,
    /// Whether the expressions were resolved since the load.
    resolved_since_load: bool,
    /// The number of expressions that members use; `resolved` is the number of resolved ones.
    subscribed: usize,
    resolved: usize,
    pub(super) timer: Timer,
    /// The resolution under way.
    pub(super) resolving: Option<Resolving>,
}

impl Regexes {
    /// The number of members that subscribe with an expression.
    pub(crate) fn members(&self, regex: &str) -> usize {
        self.expressions.get(regex).map_or(0, |it| it.members)
    }

    pub(crate) fn resolved(&self, regex: &str) -> Option<&Resolved> {
        self.expressions.get(regex)?.resolved.as_ref()
    }

    /// The number of expressions that members use.
    pub(crate) fn subscribed_len(&self) -> usize {
        self.subscribed
    }

    /// The expressions that members use, with the number of members of each.
    pub(crate) fn subscribed(&self) -> impl Iterator<Item = (&Text, usize)> {
        self.expressions.iter().map(|(regex, it)| (regex, it.members)).filter(|(_, n)| *n > 0)
    }

    /// The expressions in use after one member replaces `old` by `new`.
    fn subscribed_after(&self, old: Option<&Text>, new: Option<&Text>) -> Vec<Text> {
        let remains = |(regex, members): &(&Text, usize)| {
            *members > usize::from(Some(*regex) == old && old != new)
        };
        let mut after: Vec<Text> =
            self.subscribed().filter(remains).map(|(regex, _)| regex.clone()).collect();
        after.extend(new.filter(|new| self.members(new) == 0).cloned());
        after
    }

    /// The last resolution. It is read from the first resolved expression, because usually all
    /// expressions are resolved together.
    fn last(&self) -> Option<&Resolved> {
        self.all_resolved().next().map(|(_, resolved)| resolved)
    }

    pub(crate) fn all_resolved(&self) -> impl Iterator<Item = (&Text, &Resolved)> {
        self.expressions.iter().filter_map(|(regex, it)| Some((regex, it.resolved.as_ref()?)))
    }

    pub(crate) fn add_member(&mut self, regex: &Text) {
        let expression = self.expressions.entry(regex.clone()).or_default();
        expression.members += 1;
        self.subscribed += usize::from(expression.members == 1);
    }

    pub(crate) fn remove_member(&mut self, regex: &Text) {
        let Some(expression) = self.expressions.get_mut(regex) else { return };
        if expression.members > 0 {
            expression.members -= 1;
            self.subscribed -= usize::from(expression.members == 0);
        }
        self.forget_if_unused(regex);
    }

    /// Sets the topics that match an expression. Returns the previous topics.
    pub(crate) fn resolve(&mut self, regex: &str, resolved: Option<Resolved>) -> Option<Resolved> {
        let expression = match self.expressions.get_mut(regex) {
            Some(expression) => expression,
            None => self.expressions.entry(Text::from(regex)).or_default(),
        };
        self.resolved += usize::from(resolved.is_some());
        let before = core::mem::replace(&mut expression.resolved, resolved);
        self.resolved -= usize::from(before.is_some());
        self.forget_if_unused(regex);
        before
    }

    fn forget_if_unused(&mut self, regex: &str) {
        let is_unused = |it: &Expression| it.members == 0 && it.resolved.is_none();
        if self.expressions.get(regex).is_some_and(is_unused) {
            self.expressions.remove(regex);
        }
    }
}

/// How a request changed its member's expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    None,
    /// The new expression is not resolved yet.
    Unresolved,
    /// The new expression is resolved, or the member no longer has an expression.
    Resolved,
}

impl ConsumerGroup {
    /// Handles a request that may replace its member's expression. Starts a resolution if one is
    /// due.
    ///
    /// # Errors
    /// INVALID_REGULAR_EXPRESSION.
    pub(super) fn update_regex(
        &mut self,
        turn: &mut Turn<'_, '_>,
        draft: &mut Draft<'_>,
        before: &Profile,
        after: &Profile,
    ) -> Result<Change, Refusal> {
        let (old, new) = (before.regex(), after.regex());
        let mut change = Change::None;
        let mut must_resolve = false;
        if before.regex != after.regex {
            change = Change::Unresolved;
            if let Some(old) = old
                && self.own.regexes.members(old) == 1
            {
                draft.push(records::regex_tombstone(&self.id, old));
            }
            match new {
                Some(new) if self.own.regexes.members(new) == 0 => {
                    check(new)?;
                    must_resolve = true;
                }
                Some(new) if self.own.regexes.resolved(new).is_some() => change = Change::Resolved,
                None if old.is_some() => change = Change::Resolved,
                Some(_) | None => {}
            }
        }
        if must_resolve || self.own.regexes.subscribed > 0 {
            self.maybe_resolve(turn, old, new, must_resolve);
        }
        Ok(change)
    }

    /// Starts a resolution of all expressions of the group if one is due.
    fn maybe_resolve(
        &mut self,
        turn: &mut Turn<'_, '_>,
        old: Option<&Text>,
        new: Option<&Text>,
        must_resolve: bool,
    ) {
        if !self.may_resolve(turn) {
            return;
        }
        let expressions = self.own.regexes.subscribed_after(old, new);
        if (must_resolve || self.must_resolve(turn, expressions.len())) && !expressions.is_empty() {
            self.own.regexes.resolving = Some(Resolving::new(expressions, turn.describes));
            self.schedule_resolution(turn);
        }
    }

    /// Whether a resolution is due although no member has changed. The next heartbeat of a member
    /// then starts the resolution.
    pub(super) fn is_resolution_due(&self, turn: &Turn<'_, '_>) -> bool {
        let expressions = self.own.regexes.subscribed;
        expressions > 0 && self.may_resolve(turn) && self.must_resolve(turn, expressions)
    }

    /// Whether a resolution may start: none is under way, and the last one is not too recent.
    fn may_resolve(&self, turn: &Turn<'_, '_>) -> bool {
        let is_late =
            |last: &Resolved| turn.wall.is_over(last.timestamp, RESOLUTIONS_MIN_INTERVAL_MS + 1);
        self.own.regexes.resolving.is_none() && self.own.regexes.last().is_none_or(is_late)
    }

    /// Whether a resolution is needed. It is if there was none yet, if there are new expressions or
    /// new topics, or if the last resolution is older than the refresh interval. If the last one is
    /// from before the load, it is repeated unless the version of the topics is still the same.
    fn must_resolve(&self, turn: &Turn<'_, '_>, expressions: usize) -> bool {
        let Some(last) = self.own.regexes.last() else { return true };
        let refresh_ms = i64::from(turn.config.group_consumer_regex_refresh_interval_ms);
        // The versions of different processes cannot be ordered. They can only be compared for
        // equality.
        let is_foreign =
            !self.own.regexes.resolved_since_load && last.version != turn.loaded_topics;
        expressions != self.own.regexes.resolved
            || is_foreign
            || last.version < turn.newest_topics
            || turn.wall.is_over(last.timestamp, refresh_ms.saturating_add(1))
    }
}

/// Checks an expression.
///
/// # Errors
/// INVALID_REGULAR_EXPRESSION.
fn check(expression: &str) -> Result<(), Refusal> {
    match Regex::new(expression) {
        Ok(_) => Ok(()),
        Err(_) => {
            refuse(ErrorCode::InvalidRegularExpression, "It is not a valid expression in RE2J.")
        }
    }
}

/// A resolution under way. The expressions are resolved one after the other.
#[derive(Debug)]
pub(crate) struct Resolving {
    expressions: Vec<Text>,
    /// The topics that may be described by the client that caused the resolution; None for all.
    describes: Option<Arc<dyn Describes>>,
    current: Option<Resolution>,
    /// The topics of the expressions that are resolved so far.
    resolved: Vec<Resolved>,
}

impl Resolving {
    fn new(expressions: Vec<Text>, describes: Option<&Arc<dyn Describes>>) -> Self {
        let describes = describes.cloned();
        Self { expressions, describes, current: None, resolved: Vec::new() }
    }

    fn may_describe(&self, topic: &str) -> bool {
        self.describes.as_ref().is_none_or(|it| it.may_describe(topic))
    }

    /// Resolves for one slice. Returns true when all expressions are resolved.
    fn step(&mut self, turn: &Turn<'_, '_>) -> bool {
        let Some(expression) = self.expressions.get(self.resolved.len()) else { return true };
        let resolution = match self.current.take() {
            Some(resolution) => Ok(resolution),
            None => Regex::new(expression).map(Resolution::new),
        };
        // Only an expression from the log can be invalid here. It matches nothing.
        let matched = resolution.map_or_else(
            |_| Some(Vec::new()),
            |mut resolution| {
                let names = turn.topics.names_after(resolution.last());
                let matched = resolution.step(names, SLICE);
                self.current = matched.is_none().then_some(resolution);
                matched
            },
        );
        if let Some(matched) = matched {
            let described = matched.iter().filter(|it| self.may_describe(it));
            let topics = described.map(|it| Text::from(&**it)).collect();
            let (version, timestamp) = (turn.topics.version(), turn.wall.0);
            self.resolved.push(Resolved { topics, version, timestamp });
        }
        self.resolved.len() == self.expressions.len()
    }
}

impl ConsumerGroup {
    /// Continues a resolution. Writes the records at its end.
    pub(crate) fn expressions_timer(&mut self, turn: &mut Turn<'_, '_>) {
        let key = TimerKey::Expressions { group_id: self.id.clone() };
        if !turn.timers.due(&mut self.own.regexes.timer, turn.now, key) {
            return;
        }
        let Some(mut resolving) = self.own.regexes.resolving.take() else { return };
        if resolving.step(turn) {
            return self.write_resolved(turn, &resolving);
        }
        self.own.regexes.resolving = Some(resolving);
        self.schedule_resolution(turn);
    }

    fn schedule_resolution(&mut self, turn: &mut Turn<'_, '_>) {
        let group_id = &self.id;
        let key = || TimerKey::Expressions { group_id: group_id.clone() };
        turn.timers.schedule(&mut self.own.regexes.timer, turn.now, key);
    }

    /// Writes the topics of each expression, and bumps the group epoch if they changed.
    fn write_resolved(&mut self, turn: &mut Turn<'_, '_>, resolving: &Resolving) {
        self.own.regexes.resolved_since_load = true;
        let mut draft = Draft::new();
        let mut subscriptions = self.subscriptions.clone();
        let mut is_new = false;
        for (regex, resolved) in resolving.expressions.iter().zip(&resolving.resolved) {
            if self.own.regexes.members(regex) == 0 {
                continue;
            }
            let before = self.own.regexes.resolved(regex).map(|it| &*it.topics).unwrap_or_default();
            if before != resolved.topics {
                is_new = true;
                subscriptions.remove_matched(before);
                subscriptions.add_matched(&resolved.topics);
            }
            draft.push(records::resolved(&self.id, regex, resolved));
        }
        let hash = turn.hashes.of_group(turn.topics, subscriptions.names());
        if is_new || hash != self.metadata_hash {
            let epoch = self.epoch.saturating_add(1);
            turn.events.consumer_rebalances += 1;
            turn.rebalances(epoch);
            turn.note_cause(if is_new { Cause::Expression } else { Cause::Topics }, None);
            draft.push(Consumer::epoch_record(&self.id, epoch, hash, &()));
            self.checked_version = Some(turn.topics.version());
        }
        turn.write_all(draft);
    }
}
