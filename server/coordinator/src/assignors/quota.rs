//! The quota of an assignor: the number of tasks that a member may have while other members have
//! less than their share.

/// The even share of tasks. When a member reaches its share, the share of the other members is
/// computed again.
#[derive(Debug)]
pub(super) struct Quota {
    tasks: i64,
    members: i64,
    of_each: u32,
}

impl Quota {
    pub(super) fn new(tasks: usize, members: usize) -> Self {
        let (tasks, members) = (tasks as i64, members as i64);
        Self { tasks, members, of_each: of_each(tasks, members) }
    }

    pub(super) fn of_each(&self) -> u32 {
        self.of_each
    }

    /// Notes that a member now has this number of tasks.
    pub(super) fn reached(&mut self, tasks: u32) {
        if tasks == self.of_each {
            self.members -= 1;
            self.tasks -= i64::from(tasks);
            self.of_each = of_each(self.tasks, self.members);
        }
    }
}

fn of_each(tasks: i64, members: i64) -> u32 {
    if members <= 0 { 0 } else { u32::try_from((tasks + members - 1) / members).unwrap_or(0) }
}
