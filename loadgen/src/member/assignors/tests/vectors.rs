//! Assignments of random groups by the assignors of kafka-clients 4.3.0.

use super::*;

/// One line of the vectors: a group, and the assignments that Kafka's assignor made.
struct Vector {
    line: usize,
    assignor: ClassicAssignor,
    topics: Topics,
    members: Vec<MemberSubscription>,
    kafka: Vec<Assignment>,
}

fn vectors() -> impl Iterator<Item = Vector> {
    let text = include_str!("../../../../tests/data/kafka_assignments.tsv");
    text.lines().enumerate().skip(1).map(|(at, line)| vector(at + 1, line))
}

fn vector(line: usize, columns: &str) -> Vector {
    let columns: Vec<&str> = columns.split('\t').collect();
    let [assignor, topic_list, members, kafka] = columns[..] else { panic!("line {line}") };
    let mut topics = Topics::default();
    for topic in split(topic_list, ',') {
        let (name, partitions) = topic.split_once(':').unwrap();
        topics.learn(topic_of(name, partitions.parse().unwrap()));
    }
    let members = split(members, ';').map(|member| member_of(member, &topics)).collect();
    let kafka = kafka.split(';').map(|assigned| partitions_of(assigned, &topics)).collect();
    Vector { line, assignor: ClassicAssignor::named(assignor).unwrap(), topics, members, kafka }
}

fn split(list: &str, by: char) -> impl Iterator<Item = &str> {
    list.split(by).filter(|part| !part.is_empty())
}

fn member_of(member: &str, topics: &Topics) -> MemberSubscription {
    let fields: Vec<&str> = member.split('|').collect();
    let [id, instance, subscribed, generation, owned] = fields[..] else { panic!("{member}") };
    let index = |name: &str| topics.named(&text(name)).unwrap();
    MemberSubscription {
        member_id: text(id),
        instance_id: (!instance.is_empty()).then(|| text(instance)),
        topics: split(subscribed, ',').map(index).collect(),
        owned: partitions_of(owned, topics),
        generation: generation.parse().unwrap(),
    }
}

fn partitions_of(list: &str, topics: &Topics) -> Vec<Partition> {
    let mut partitions: Vec<Partition> = split(list, ',')
        .map(|partition| {
            let (name, number) = partition.rsplit_once(':').unwrap();
            let topic = topics.named(&text(name)).unwrap();
            Partition { topic, number: number.parse().unwrap() }
        })
        .collect();
    partitions.sort_unstable();
    partitions
}

#[test]
fn range_and_round_robin_assign_as_in_kafka() {
    for vector in vectors() {
        if matches!(vector.assignor, ClassicAssignor::Range | ClassicAssignor::RoundRobin) {
            let ours = assign(vector.assignor, &vector.members, &vector.topics);
            assert_eq!(ours, vector.kafka, "line {}", vector.line);
        }
    }
}

/// Sticky assignors have to make even assignments, and to let many partitions stay. If several
/// assignments are equally good, they may choose any. A chain of moves can make the loads more even
/// where no single move does, but neither Kafka's assignor nor ours looks for chains. In one of a
/// hundred groups with different topics, Kafka happens to find the more even result.
#[test]
fn sticky_is_as_even_and_as_sticky_as_kafkas() {
    let mut less_even = 0;
    for vector in vectors().filter(|vector| vector.assignor == ClassicAssignor::Sticky) {
        let ours = assign(vector.assignor, &vector.members, &vector.topics);
        let line = format!("line {}", vector.line);
        assert_complete(&vector.members, &vector.topics, &ours, &line);
        assert_no_move_helps(&vector.members, &ours, &line);
        if unevenness(&ours) > unevenness(&vector.kafka) {
            less_even += 1;
        } else {
            let (stay, kafka) =
                (kept_of(&vector.members, &ours), kept_of(&vector.members, &vector.kafka));
            assert!(stay >= kafka, "{line}: {stay} stay, with Kafka {kafka}: {ours:?}");
        }
    }
    assert!(less_even <= 5, "{less_even} of 400 are less even than Kafka's");
}

#[test]
fn cooperative_assigns_as_many_partitions_as_kafka() {
    let given = |assignments: &[Assignment]| assignments.iter().map(Vec::len).sum::<usize>();
    for vector in vectors().filter(|v| v.assignor == ClassicAssignor::CooperativeSticky) {
        let ours = assign(vector.assignor, &vector.members, &vector.topics);
        let (ours, kafka) = (given(&ours), given(&vector.kafka));
        assert!(ours >= kafka, "line {}: {ours} assigned, by Kafka {kafka}", vector.line);
    }
}
