//! The partitions of a group and their owners.

use super::GroupMeasure;
use crate::history::Kind;
use crate::measure::member::{Holder, Member};
use crate::measure::rebalance::Shared;
use crate::plan::{MemberIndex, Partition};
use crate::time::Time;

impl GroupMeasure {
    pub(super) fn assigned(
        &mut self,
        index: MemberIndex,
        at: Time,
        partitions: &[Partition],
        shared: &mut Shared<'_>,
    ) {
        let member = self.member(index);
        member.owns += partitions.len() as u32;
        if let Some(since) = member.waits.take_if(|_| !partitions.is_empty()) {
            shared.pause(at.since(since));
            self.waiting.remove(&index);
        }
        if self.group.protocol == Kind::Share {
            self.sharing.assigned(index, partitions);
            self.owned = self.sharing.owned();
            return;
        }
        for partition in partitions {
            self.assign(*partition, index);
        }
    }

    fn assign(&mut self, partition: Partition, to: MemberIndex) {
        let life = self.member(to).life;
        let holder = Holder { member: to, life, free: false };
        match self.partitions.insert(partition, holder) {
            Some(before) => {
                match self.holding(before) {
                    Some(member) => member.holds -= 1,
                    None => self.owned += 1,
                }
                self.with_open(|open| open.moved += u32::from(before.member != to));
            }
            None => self.owned += 1,
        }
        self.member(to).holds += 1;
    }

    pub(super) fn released(&mut self, index: MemberIndex, at: Time, partitions: &[Partition]) {
        for partition in partitions {
            let Some(holder) = self.partitions.get(partition).copied() else { continue };
            if holder.member == index && self.holding(holder).is_some() {
                self.partitions.insert(*partition, Holder { free: true, ..holder });
                self.member(index).holds -= 1;
                self.owned -= 1;
            }
        }
        if self.group.protocol == Kind::Share {
            self.sharing.released(index, partitions);
            self.owned = self.sharing.owned();
        }
        let member = self.member(index);
        member.owns = member.owns.saturating_sub(partitions.len() as u32);
        if member.owns == 0 && member.live && !partitions.is_empty() {
            member.waits.get_or_insert(at);
            self.waiting.insert(index);
        }
        self.with_open(|open| open.revoked += partitions.len() as u32);
    }

    /// Returns the holder's member if it still owns the partition.
    fn holding(&mut self, holder: Holder) -> Option<&mut Member> {
        let member = self.members.get_mut(&holder.member)?;
        (!holder.free && member.life == holder.life).then_some(member)
    }
}
