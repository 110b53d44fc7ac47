//! How much data a replay has compared.

/// The amount of compared data.
#[derive(Debug, Default, Clone, Copy)]
pub struct Counts {
    pub operations: u64,
    pub requests: u64,
    pub answers: u64,
    pub records: u64,
    pub groups_dumped: u64,
}

impl Counts {
    pub fn add(&mut self, other: &Self) {
        self.operations += other.operations;
        self.requests += other.requests;
        self.answers += other.answers;
        self.records += other.records;
        self.groups_dumped += other.groups_dumped;
    }
}

impl std::fmt::Display for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { operations, requests, answers, records, groups_dumped } = self;
        write!(f, "{operations} operations, {requests} requests, {answers} answers, ")?;
        write!(f, "{records} records, {groups_dumped} groups dumped")
    }
}
