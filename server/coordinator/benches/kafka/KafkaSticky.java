// Kafka's own assignor of tasks, `sticky`, for comparison and for timing; driven by lines on standard
// input. Needs a JDK of 17 or later and the jars of kafka-group-coordinator 4.3.0 with its
// dependencies.
//
//     java -cp 'JARS/*' KafkaSticky.java
//
// Lines in, fields separated by spaces:
//
//     group MEMBERS SUBTOPOLOGIES PARTITIONS STANDBYS A_PROCESS
//                                      a new group; all subtopologies have state
//     join                             one more member, in a process of its own
//     assign REPEATS
//
// `assign` computes REPEATS times and answers `time NANOSECONDS` (the median of the assignor alone),
// then `member NUMBER ACTIVE STANDBY` for each member, with its tasks as SUBTOPOLOGY_PARTITION,...
// or -, then `end`, and adopts the targets.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.coordinator.group.streams.assignor.AssignmentMemberSpec;
import org.apache.kafka.coordinator.group.streams.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.streams.assignor.GroupSpecImpl;
import org.apache.kafka.coordinator.group.streams.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor;
import org.apache.kafka.coordinator.group.streams.assignor.TopologyDescriber;
import org.apache.kafka.timeline.SnapshotRegistry;
import org.apache.kafka.timeline.TimelineHashMap;

public class KafkaSticky {
    private final TimelineHashMap<String, String> processes =
        new TimelineHashMap<>(new SnapshotRegistry(new LogContext()), 0);
    private Map<String, MemberAssignment> targets = new HashMap<>();
    private final List<String> subtopologies;
    private final int partitions;
    private final String standbys;

    public static void main(String[] arguments) throws Exception {
        var in = new BufferedReader(new InputStreamReader(System.in));
        var out = new PrintStream(System.out, false);
        KafkaSticky group = null;
        for (String line; (line = in.readLine()) != null; ) {
            String[] fields = line.split(" ");
            switch (fields[0]) {
                case "group" -> group = new KafkaSticky(fields);
                case "join" -> group.join(group.processes.size(), "alone");
                case "assign" -> {
                    group.assign(Integer.parseInt(fields[1]), out);
                    out.flush();
                }
                default -> throw new IllegalArgumentException(line);
            }
        }
    }

    private KafkaSticky(String[] fields) {
        int members = Integer.parseInt(fields[1]);
        subtopologies = IntStream.range(0, Integer.parseInt(fields[2]))
            .mapToObj(number -> String.format("%03d", number)).toList();
        partitions = Integer.parseInt(fields[3]);
        standbys = fields[4];
        int ofProcess = Integer.parseInt(fields[5]);
        for (int member = 0; member < members; member++) {
            join(member, "process-" + member / ofProcess);
        }
    }

    /** The records of a join write the member twice. */
    private void join(int member, String process) {
        processes.put("member-" + member, process);
        processes.put("member-" + member, process);
    }

    private void assign(int repeats, PrintStream out) {
        var specs = new HashMap<String, AssignmentMemberSpec>();
        processes.forEach((member, process) -> specs.put(member, spec(member, process)));
        var spec = new GroupSpecImpl(Collections.unmodifiableMap(specs), Map.of("num.standby.replicas", standbys));
        var describer = new TopologyDescriber() {
            @Override
            public List<String> subtopologies() {
                return subtopologies;
            }

            @Override
            public int maxNumInputPartitions(String subtopology) {
                return partitions;
            }

            @Override
            public boolean isStateful(String subtopology) {
                return true;
            }
        };
        var assignor = new StickyTaskAssignor();
        GroupAssignment assignment = null;
        long[] times = new long[repeats];
        for (int i = 0; i < repeats; i++) {
            long start = System.nanoTime();
            assignment = assignor.assign(spec, describer);
            times[i] = System.nanoTime() - start;
        }
        Arrays.sort(times);
        out.println("time " + times[repeats / 2]);
        targets = assignment.members();
        targets.forEach((member, target) -> out.println("member " + member.substring(7) + " "
            + tasks(target.activeTasks()) + " " + tasks(target.standbyTasks())));
        out.println("end");
    }

    private AssignmentMemberSpec spec(String member, String process) {
        var target = targets.getOrDefault(member, MemberAssignment.empty());
        return new AssignmentMemberSpec(Optional.empty(), Optional.empty(), target.activeTasks(),
            target.standbyTasks(), target.warmupTasks(), process, Map.of(), Map.of(), Map.of());
    }

    private static String tasks(Map<String, Set<Integer>> tasks) {
        String list = tasks.entrySet().stream()
            .flatMap(of -> of.getValue().stream().map(partition -> of.getKey() + "_" + partition))
            .collect(Collectors.joining(","));
        return list.isEmpty() ? "-" : list;
    }
}
