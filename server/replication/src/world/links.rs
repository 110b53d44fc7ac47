//! The links between the nodes: messages arrive in their order, or not at all.

use super::World;
use super::defects::Defect;
use crate::{Body, Group, Lie, NodeId, PeerMessage, Session, Term, Tick};
use std::collections::{BTreeSet, VecDeque};

#[derive(Default)]
pub(super) struct Link {
    pub(super) cut: bool,
    pub(super) queue: VecDeque<OnTheWay>,
    /// The messages of older connections. They are delivered only if a defect is injected.
    old: VecDeque<OnTheWay>,
}

pub(super) struct OnTheWay {
    pub(super) at: u64,
    /// The newest tick of the sender.
    pub(super) tick: Tick,
    pub(super) message: PeerMessage,
}

impl World {
    pub(super) fn link(&mut self, from: NodeId, to: NodeId) -> &mut Link {
        self.links.get_mut(&(from, to)).unwrap()
    }

    /// The end of a connection: what was on its way is lost.
    pub(super) fn lose_frames(&mut self, from: NodeId, to: NodeId) {
        let delay = self.random.u64(..200);
        let is_kept = self.defect == Some(Defect::OldFrames);
        let link = self.link(from, to);
        let lost = std::mem::take(&mut link.queue);
        if is_kept {
            link.old.extend(lost.into_iter().map(|it| OnTheWay { at: it.at + delay, ..it }));
        }
    }

    /// A connection breaks, and the nodes are connected again at once. What was on its way is lost.
    pub(crate) fn reset(&mut self, from: NodeId, to: NodeId) {
        self.lose_frames(from, to);
        self.notify(from, |it, judge| {
            it.call(judge, |replicas, out| replicas.lost(to, false, out));
        });
    }

    /// The newest message did not fit into the connection.
    pub(crate) fn drop_frame(&mut self, from: NodeId, to: NodeId) {
        if let Some(it) = self.link(from, to).queue.pop_back() {
            let group = it.message.group;
            self.notify(from, |it, judge| {
                it.call(judge, |replicas, out| replicas.dropped(to, &[group], out));
            });
        }
    }

    pub(crate) fn cut(&mut self, from: NodeId, to: NodeId, cut: bool) {
        if std::mem::replace(&mut self.link(from, to).cut, cut) != cut {
            self.reset(from, to);
        }
    }

    pub(crate) fn isolate(&mut self, node: NodeId, cut: bool) {
        for other in self.others(node) {
            self.cut(node, other, cut);
            self.cut(other, node, cut);
        }
    }

    /// Delivers what has arrived. A process that stands still gets it later.
    pub(super) fn deliver(&mut self, from: NodeId, to: NodeId) {
        while let Some(session) = self.node(from).map(|it| it.session)
            && self.is_running(to)
            && let Some(it) = self.next_arrived(from, to)
        {
            let fresh = self.machine(to).tick.is_fresh(it.message.echo);
            let node = self.machine(to).node.as_mut().expect("a node that runs");
            node.replicas.heard((from, session), (0, 1), it.tick);
            self.count_learner(&it.message, fresh);
            self.step_message(to, (from, session), fresh, it.message);
        }
    }

    fn next_arrived(&mut self, from: NodeId, to: NodeId) -> Option<OnTheWay> {
        let now = self.now;
        let link = self.link(from, to);
        let old = link.old.pop_front_if(|it| it.at <= now);
        old.or_else(|| link.queue.pop_front_if(|it| it.at <= now))
    }

    fn step_message(
        &mut self,
        to: NodeId,
        from: (NodeId, Session),
        fresh: bool,
        message: PeerMessage,
    ) {
        let stepped = self.with(to, |node, judge| {
            node.call(judge, |replicas, out| replicas.step(from, fresh, message, out))
        });
        match stepped {
            None | Some(Ok(())) => {}
            Some(Err(Lie::Stranger)) => self.strangers += 1,
            Some(Err(lie)) => self.lies.push(lie),
        }
    }

    /// Injected fault 9: for each acknowledgement of a learner, the leader also gets a copy that
    /// names a voter as the sender.
    fn count_learner(&mut self, message: &PeerMessage, fresh: bool) {
        let members = self.judge.members(message.group);
        let is_learner = members.learners.contains(&message.from);
        if self.defect != Some(Defect::CountedLearner)
            || !is_learner
            || !matches!(message.body, Body::Appended { .. })
        {
            return;
        }
        let voter = members.voters.iter().copied().find(|it| *it != message.to);
        let Some(session) = voter.and_then(|it| self.node(it.node())).map(|it| it.session) else {
            return;
        };
        let from = voter.unwrap();
        let message = PeerMessage { from, ..message.clone() };
        self.step_message(message.to.node(), (from.node(), session), fresh, message);
    }

    /// The number of voters with answers to the leader of this term that have arrived at it, but
    /// that it has not read yet.
    pub(super) fn unread_answers(&self, leader: NodeId, group: Group, term: Term) -> usize {
        let machine = &self.machines[&leader];
        let is_answer = |it: &OnTheWay| {
            it.message.term == term
                && machine.tick.is_fresh(it.message.echo)
                && matches!(it.message.body, Body::Appended { .. } | Body::Heard { .. })
        };
        let voters = &self.judge.members(group).voters;
        let unread = self.unread(leader, group).filter(|it| is_answer(it));
        let voters = unread.map(|it| it.message.from).filter(|it| voters.contains(it));
        voters.collect::<BTreeSet<_>>().len()
    }

    /// Whether a message of a leader has arrived at the node, but was not read yet. The leader is
    /// that of this term or of a later one.
    pub(super) fn has_unread_leader(&self, node: NodeId, group: Group, term: Term) -> bool {
        let is_of_leader =
            |it: &PeerMessage| matches!(it.body, Body::Append { .. } | Body::Heartbeat { .. });
        let mut unread = self.unread(node, group).map(|it| &it.message);
        unread.any(|it| it.term >= term && is_of_leader(it))
    }

    fn unread(&self, node: NodeId, group: Group) -> impl Iterator<Item = &OnTheWay> {
        let links = self.links.iter().filter(move |((_, to), _)| *to == node);
        // Messages of this millisecond are left out: the node may have read its input before them.
        let arrived = links.flat_map(|(_, it)| &it.queue).filter(|it| it.at < self.now);
        arrived.filter(move |it| it.message.group == group)
    }
}
