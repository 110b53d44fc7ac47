//! Members that subscribe to other topics while they run.

use super::classic::{cooperative, eager, settled as settled_classic};
use super::consumer::{given_of, owned, plan, reply, settled as settled_consumer};
use super::*;
use crate::event::EventKind::{Assigned, Joining, Revoked};

/// As in Kafka's client, the next heartbeat reports the subscription. The coordinator decides which
/// partitions the member gives up.
#[test]
fn a_member_that_subscribes_to_other_topics_says_so_with_its_next_heartbeat() {
    let mut story = settled_consumer(plan());
    let before = story.sent.len();
    let other = GroupPlan { subscription: Subscription::Topics([TopicIndex(1)].into()), ..plan() };
    story.call(|member, context, output| member.subscribe(Arc::new(other), context, output));
    assert_eq!((story.sent.len(), story.events().len()), (before, 0), "it is not due yet");
    story.until(at(60_000));
    let request = reply(&mut story, given_of(1, 2, &[3]));
    assert_eq!(request.subscribed_topic_names.as_ref().unwrap()[..], ["u"]);
    assert_eq!((request.member_epoch, owned(&request)), (1, Some(vec![0, 1])));
    let new = Partition { topic: TopicIndex(1), number: 3 };
    let events = story.events();
    assert!(events.contains(&Revoked { partitions: set(&[0, 1]) }), "{events:?}");
    assert!(events.contains(&Assigned { epoch: 2, partitions: [new].into() }), "{events:?}");
}

#[test]
fn a_running_member_does_not_take_a_plan_of_another_protocol() {
    let mut story = settled_consumer(plan());
    let classic = Arc::new(group(classic(&[ClassicAssignor::Range])));
    story.call(|member, context, output| member.subscribe(classic, context, output));
    assert_eq!(story.member.plan().group.protocol, plan().protocol);
}

/// Cooperative members keep their partitions, except those of topics to which they no longer
/// subscribe.
#[test]
fn a_member_that_subscribes_to_other_topics_joins_again() {
    let eager = (eager(), "range");
    let cooperative = (cooperative(), "cooperative-sticky");
    for ((plan, name), topics, revokes) in [
        (eager.clone(), &[0, 1][..], true),
        (cooperative.clone(), &[0, 1], false),
        (cooperative, &[1], true),
        (eager, &[0], false),
    ] {
        let mut story = settled_classic(plan.clone(), name);
        let topics: Arc<[TopicIndex]> = topics.iter().map(|topic| TopicIndex(*topic)).collect();
        let rejoins = topics[..] != [TopicIndex(0)];
        let plan = GroupPlan { subscription: Subscription::Topics(topics), ..plan };
        story.call(|member, context, output| member.subscribe(Arc::new(plan), context, output));
        let revoked = Revoked { partitions: set(&[0, 1]) };
        let expected = [revokes.then_some(revoked), rejoins.then_some(Joining)];
        assert_eq!(story.events(), Vec::from_iter(expected.into_iter().flatten()), "{name}");
    }
}
