// Kafka's own assignors, driven by lines on standard input, for comparison and for timing. The
// state is kept as Kafka's coordinator keeps it (the same kinds of maps and sets, filled in the
// same order), as placement depends on their iteration order. Needs a JDK of 17 or later and the
// jars of kafka-group-coordinator 4.3.0 with its dependencies.
//
//     java -cp 'JARS/*' KafkaAssignors.java
//
// Lines in, fields separated by spaces; ids of topics are 32 hexadecimal digits:
//
//     topic ID NAME PARTITIONS         a topic is created, or its number of partitions set
//     join MEMBER INSTANCE TOPIC,...   a member joins; - means no instance, or no topics
//     subscribe MEMBER TOPIC,...
//     leave MEMBER
//     assign ASSIGNOR TYPE JOINING REPEATS
//                                      uniform or range; homogeneous or heterogeneous; the new
//                                      member that sends the request, or -
//     reset
//
// `assign` computes REPEATS times and answers `time NANOSECONDS` (the median of the assignor
// alone), then `change MEMBER TOPIC:PARTITION,... ...` for each member whose target changed, then
// `end`, and adopts the changes.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.PartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;
import org.apache.kafka.timeline.SnapshotRegistry;
import org.apache.kafka.timeline.TimelineHashMap;

public class KafkaAssignors {
    private record Member(String instance, Set<Uuid> topics) { }

    private final Map<Uuid, Integer> partitions = new HashMap<>();
    private final Map<Uuid, String> names = new HashMap<>();
    private final Map<String, Uuid> ids = new HashMap<>();
    private final TimelineHashMap<String, Member> members =
        new TimelineHashMap<>(new SnapshotRegistry(new LogContext()), 0);
    private final Map<String, Assignment> targets = new HashMap<>();
    /** The last member to join, not yet among the members: its records follow the assignment. */
    private String joiningId;
    private Member joining;

    public static void main(String[] arguments) throws Exception {
        var in = new BufferedReader(new InputStreamReader(System.in));
        var out = new PrintStream(System.out, false);
        var group = new KafkaAssignors();
        for (String line; (line = in.readLine()) != null; ) {
            String[] fields = line.split(" ");
            switch (fields[0]) {
                case "topic" -> group.topic(id(fields[1]), fields[2], Integer.parseInt(fields[3]));
                case "join" -> group.join(fields[1], fields[2], fields[3]);
                case "subscribe" -> group.subscribe(fields[1], fields[2]);
                case "leave" -> group.leave(fields[1]);
                case "assign" -> {
                    group.assign(fields, out);
                    out.flush();
                }
                case "reset" -> group = new KafkaAssignors();
                default -> throw new IllegalArgumentException(line);
            }
        }
    }

    private void topic(Uuid id, String name, int count) {
        partitions.put(id, count);
        names.put(id, name);
        ids.put(name, id);
    }

    private void join(String member, String instance, String topics) {
        settle();
        joiningId = member;
        joining = new Member(instance.equals("-") ? null : instance, topics(topics));
    }

    /** The records of a join write the member twice. */
    private void settle() {
        if (joining != null) {
            members.put(joiningId, joining);
            members.put(joiningId, joining);
            joining = null;
        }
    }

    private void subscribe(String member, String topics) {
        settle();
        members.put(member, new Member(members.get(member).instance, topics(topics)));
    }

    private void leave(String member) {
        settle();
        members.remove(member);
        targets.remove(member);
    }

    /** In the order of the names, as a member's subscription is a set of names. */
    private Set<Uuid> topics(String list) {
        List<String> given = new ArrayList<>();
        for (String topic : list.equals("-") ? new String[0] : list.split(",")) {
            given.add(names.get(id(topic)));
        }
        Set<Uuid> topics = new LinkedHashSet<>();
        new HashSet<>(given).forEach(name -> topics.add(ids.get(name)));
        return topics;
    }

    private void assign(String[] fields, PrintStream out) {
        PartitionAssignor assignor =
            fields[1].equals("range") ? new RangeAssignor() : new UniformAssignor();
        var type = SubscriptionType.valueOf(fields[2].toUpperCase());
        var specs = Collections.unmodifiableMap(specs(fields[3]));
        var spec = new GroupSpecImpl(specs, type, inverted());
        var describer = new SubscribedTopicDescriber() {
            @Override
            public int numPartitions(Uuid topic) {
                return partitions.getOrDefault(topic, -1);
            }

            @Override
            public Set<String> racksForPartition(Uuid topic, int partition) {
                return Set.of();
            }
        };
        GroupAssignment assignment = null;
        long[] times = new long[Integer.parseInt(fields[4])];
        for (int i = 0; i < times.length; i++) {
            long start = System.nanoTime();
            assignment = assignor.assign(spec, describer);
            times[i] = System.nanoTime() - start;
        }
        Arrays.sort(times);
        out.println("time " + times[times.length / 2]);
        for (String member : spec.memberIds()) {
            var assigned = assignment.members().get(member);
            change(member, assigned == null ? Map.of() : assigned.partitions(), out);
        }
        settle();
        out.println("end");
    }

    /** Like those of Kafka's TargetAssignmentBuilder: the joining member comes last. */
    private Map<String, MemberSubscriptionAndAssignmentImpl> specs(String requester) {
        if (!requester.equals(joiningId)) {
            settle();
        }
        Map<String, MemberSubscriptionAndAssignmentImpl> specs = new HashMap<>();
        members.forEach((id, member) -> specs.put(id, spec(id, member)));
        if (joining != null) {
            specs.put(joiningId, spec(joiningId, joining));
        }
        return specs;
    }

    private MemberSubscriptionAndAssignmentImpl spec(String id, Member member) {
        return new MemberSubscriptionAndAssignmentImpl(
            Optional.empty(),
            Optional.ofNullable(member.instance),
            member.topics,
            targets.getOrDefault(id, Assignment.EMPTY));
    }

    private Map<Uuid, Map<Integer, String>> inverted() {
        Map<Uuid, Map<Integer, String>> inverted = new HashMap<>();
        targets.forEach((member, target) -> target.partitions().forEach((topic, numbers) -> {
            var owners = inverted.computeIfAbsent(topic, __ -> new HashMap<>());
            numbers.forEach(number -> owners.put(number, member));
        }));
        return inverted;
    }

    /** Adopts a new target by way of its record, if it differs. */
    private void change(String member, Map<Uuid, Set<Integer>> assigned, PrintStream out) {
        Assignment before = targets.get(member);
        if (before != null && before.partitions().equals(assigned)) {
            return;
        }
        var line = new StringBuilder("change ").append(member);
        Map<Uuid, Set<Integer>> read = new HashMap<>();
        assigned.forEach((topic, numbers) -> {
            List<Integer> record = new ArrayList<>(numbers);
            read.put(topic, new HashSet<>(record));
            line.append(' ').append(hex(topic)).append(':');
            Collections.sort(record);
            for (int i = 0; i < record.size(); i++) {
                line.append(i == 0 ? "" : ",").append(record.get(i));
            }
        });
        targets.put(member, new Assignment(read));
        out.println(line);
    }

    private static Uuid id(String hex) {
        return new Uuid(
            Long.parseUnsignedLong(hex.substring(0, 16), 16),
            Long.parseUnsignedLong(hex.substring(16), 16));
    }

    private static String hex(Uuid id) {
        return String.format(
            "%016x%016x", id.getMostSignificantBits(), id.getLeastSignificantBits());
    }
}
