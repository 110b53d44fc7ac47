//! Properties of all assignments.

use fastrand::Rng;

use super::*;

const ALL: [ClassicAssignor; 4] = [
    ClassicAssignor::Range,
    ClassicAssignor::RoundRobin,
    ClassicAssignor::Sticky,
    ClassicAssignor::CooperativeSticky,
];
const SEEDS: std::ops::Range<u64> = 0..300;

/// A group of up to 12 members, a third of them static, without earlier assignments.
fn random_group(random: &mut Rng, equal: bool) -> (Topics, Vec<MemberSubscription>) {
    let partitions: Vec<u32> = (0..random.u32(1..6)).map(|_| random.u32(0..12)).collect();
    let topics = topics_with(&partitions);
    let members = (0..random.u32(1..13)).map(|_| random_member(random, &topics, equal)).collect();
    (topics, members)
}

fn random_member(random: &mut Rng, topics: &Topics, equal: bool) -> MemberSubscription {
    let subscribed = topics.iter().map(|(index, _)| index.0).filter(|_| equal || random.bool());
    let subscribed: Vec<u32> = subscribed.collect();
    let id = format!("member-{}", random.u64(..));
    let mut member = member(&id, &subscribed);
    member.instance_id = (random.u8(..3) == 0).then(|| text(&format!("instance-{id}")));
    member
}

/// Adds earlier assignments, which may be inconsistent: stale generations, and double owners.
fn invent_past(random: &mut Rng, topics: &Topics, members: &mut [MemberSubscription]) {
    for (index, topic) in topics.iter() {
        for number in 0..topic.partitions + 1 {
            for _ in 0..random.u8(..3) {
                let member = random.usize(..members.len());
                members[member].owned.push(Partition { topic: index, number });
            }
        }
    }
    for member in members {
        member.generation = random.i32(-1..3);
    }
}

fn take_over(members: &mut [MemberSubscription], assignments: Vec<Assignment>, generation: i32) {
    for (member, assignment) in members.iter_mut().zip(assignments) {
        member.owned = assignment;
        member.generation = generation;
    }
}

#[test]
fn every_partition_has_one_owner_and_the_order_of_members_does_not_matter() {
    for seed in SEEDS {
        let random = &mut Rng::with_seed(seed);
        let (topics, mut members) = random_group(random, seed % 2 == 0);
        invent_past(random, &topics, &mut members);
        for assignor in ALL {
            let context = format!("seed {seed}, {assignor:?}");
            let assignments = assign(assignor, &members, &topics);
            if assignor.is_cooperative() {
                assert_disjoint(&members, &assignments, &context);
            } else {
                assert_complete(&members, &topics, &assignments, &context);
            }
            let mut paired: Vec<_> = members.iter().cloned().zip(assignments).collect();
            random.shuffle(&mut paired);
            let (members, expected): (Vec<_>, Vec<_>) = paired.into_iter().unzip();
            assert_eq!(assign(assignor, &members, &topics), expected, "{context}");
        }
    }
}

#[test]
fn sticky_members_with_equal_topics_are_within_one_and_keep_all_possible_partitions() {
    for seed in SEEDS {
        let random = &mut Rng::with_seed(seed);
        let (topics, mut members) = random_group(random, true);
        take_over_unevenly(random, &topics, &mut members);
        let assignments = assign(ClassicAssignor::Sticky, &members, &topics);
        let loads = || assignments.iter().map(Vec::len);
        let (least, most) = (loads().min().unwrap(), loads().max().unwrap());
        assert!(most - least <= 1, "seed {seed}: {assignments:?}");
        let kept = kept_of(&members, &assignments);
        assert_eq!(kept, most_that_can_stay(&members, loads().sum()), "seed {seed}");
    }
}

/// Every partition has one random owner.
fn take_over_unevenly(random: &mut Rng, topics: &Topics, members: &mut [MemberSubscription]) {
    for (index, topic) in topics.iter() {
        for number in 0..topic.partitions {
            let owner = random.usize(..members.len());
            members[owner].owned.push(Partition { topic: index, number });
            members[owner].generation = 1;
        }
    }
}

fn most_that_can_stay(members: &[MemberSubscription], partitions: usize) -> usize {
    let (each, one_more) = (partitions / members.len(), partitions % members.len());
    let rich = members.iter().filter(|member| member.owned.len() > each).count();
    let up_to_each: usize = members.iter().map(|member| member.owned.len().min(each)).sum();
    up_to_each + rich.min(one_more)
}

#[test]
fn a_join_or_leave_moves_no_more_than_the_members_share() {
    for seed in SEEDS {
        let random = &mut Rng::with_seed(seed);
        let (topics, mut members) = random_group(random, true);
        let first = assign(ClassicAssignor::Sticky, &members, &topics);
        let partitions: usize = first.iter().map(Vec::len).sum();
        take_over(&mut members, first, 1);

        members.push(random_member(random, &topics, true));
        let joined = assign(ClassicAssignor::Sticky, &members, &topics);
        let share = joined.last().unwrap().len();
        assert_eq!(kept_of(&members, &joined), partitions - share, "seed {seed}: one joins");
        take_over(&mut members, joined, 2);

        let left = members.swap_remove(random.usize(..members.len()));
        let after = assign(ClassicAssignor::Sticky, &members, &topics);
        let rest = if members.is_empty() { 0 } else { partitions - left.owned.len() };
        assert_eq!(kept_of(&members, &after), rest, "seed {seed}: one leaves");
    }
}

#[test]
fn sticky_members_with_different_topics_are_as_even_as_single_moves_make_them() {
    for seed in SEEDS {
        let random = &mut Rng::with_seed(seed);
        let (topics, mut members) = random_group(random, false);
        invent_past(random, &topics, &mut members);
        let assignments = assign(ClassicAssignor::Sticky, &members, &topics);
        assert_no_move_helps(&members, &assignments, &format!("seed {seed}"));
        take_over(&mut members, assignments.clone(), 3);
        assert_eq!(assign(ClassicAssignor::Sticky, &members, &topics), assignments, "seed {seed}");
    }
}

#[test]
fn cooperative_withholds_owned_partitions_and_assigns_them_once_released() {
    for seed in SEEDS {
        let random = &mut Rng::with_seed(seed);
        let (topics, mut members) = random_group(random, seed % 2 == 0);
        invent_past(random, &topics, &mut members);
        // When a withheld partition is free, it may be assigned to a third member. If another
        // member has claimed it by then, it is withheld again. This lasts only a few generations.
        for generation in 3..7 {
            let assignments = assign(ClassicAssignor::CooperativeSticky, &members, &topics);
            assert_nothing_taken(&members, &assignments, &format!("seed {seed}"));
            take_over(&mut members, assignments, generation);
        }
        let settled = assign(ClassicAssignor::CooperativeSticky, &members, &topics);
        assert_complete(&members, &topics, &settled, &format!("seed {seed}"));
    }
}

/// Asserts that a partition is not assigned to one member while another owns it. Exception: the
/// first member owns it too, in a newer generation.
fn assert_nothing_taken(members: &[MemberSubscription], assignments: &[Assignment], context: &str) {
    for (at, assignment) in assignments.iter().enumerate() {
        for partition in assignment {
            let owns = |member: &MemberSubscription| member.owned.contains(partition);
            let older = |other: &MemberSubscription| {
                owns(&members[at]) && other.generation < members[at].generation
            };
            let mut others = members.iter().enumerate().filter(|(other, _)| *other != at);
            let fair = others.all(|(_, other)| !owns(other) || older(other));
            assert!(fair, "{context}: {partition:?} is assigned to member {at}");
        }
    }
}

#[test]
fn a_claim_of_an_older_generation_is_ignored() {
    let topics = topics_with(&[2]);
    let all = || (0..2).map(|number| Partition { topic: TopicIndex(0), number }).collect();
    let mut members = [member("a", &[0]), member("b", &[0])];
    (members[0].owned, members[0].generation) = (all(), 4);
    (members[1].owned, members[1].generation) = (all(), 5);
    let assignments = assign(ClassicAssignor::CooperativeSticky, &members, &topics);
    assert_eq!(assignments[0], [], "b, with the newer claim, has yet to give it up");
    assert_eq!(assignments[1].len(), 1);
}

#[test]
fn groups_may_have_no_members_or_no_topics() {
    for assignor in ALL {
        assert!(assign(assignor, &[], &topics_with(&[3])).is_empty());
        let idle = [member("a", &[]), member("b", &[7])];
        assert_eq!(assign(assignor, &idle, &topics_with(&[3])), [vec![], vec![]]);
        let repeated = [member("a", &[0, 0, 9, 0])];
        assert_eq!(assign(assignor, &repeated, &topics_with(&[3]))[0].len(), 3);
    }
}
