//! The links between the nodes: messages arrive in their order, or not at all.

use super::{E, TICK, World};
use crate::{NodeId, PeerMessage};
use std::collections::VecDeque;

#[derive(Default)]
pub(super) struct Link {
    pub(super) cut: bool,
    pub(super) queue: VecDeque<OnTheWay>,
}

pub(super) struct OnTheWay {
    pub(super) at: u64,
    /// The ticks of the sender, and the newest ones of the receiver that it knew.
    pub(super) ticks: u64,
    pub(super) echo: u64,
    pub(super) message: PeerMessage,
}

impl World {
    /// A connection breaks, and the nodes are connected again at once. What was on its way is lost.
    pub(crate) fn reset(&mut self, from: NodeId, to: NodeId) {
        self.links.get_mut(&(from, to)).unwrap().queue.clear();
        self.with(from, |it, judge| it.call(judge, |replicas, out| replicas.lost(to, false, out)));
    }

    pub(crate) fn cut(&mut self, from: NodeId, to: NodeId, cut: bool) {
        let link = self.links.get_mut(&(from, to)).unwrap();
        if std::mem::replace(&mut link.cut, cut) != cut {
            self.reset(from, to);
        }
    }

    pub(crate) fn isolate(&mut self, node: NodeId, cut: bool) {
        for other in self.others(node) {
            self.cut(node, other, cut);
            self.cut(other, node, cut);
        }
    }

    pub(super) fn deliver(&mut self, from: NodeId, to: NodeId) {
        loop {
            let now = self.now;
            let queue = &mut self.links.get_mut(&(from, to)).unwrap().queue;
            let Some(it) = queue.pop_front_if(|it| it.at <= now) else { return };
            let Some(session) = self.node(from).map(|it| it.session) else { return };
            let machine = self.machine(to);
            let heard = machine.heard.entry(from).or_default();
            *heard = it.ticks.max(*heard);
            let fresh = machine.ticks - it.echo.min(machine.ticks) <= E / TICK;
            let stepped = self.with(to, |node, judge| {
                node.call(judge, |replicas, out| {
                    replicas.step((from, session), fresh, it.message, out)
                })
            });
            if let Some(Err(lie)) = stepped {
                self.lies.push(lie);
            }
        }
    }
}
