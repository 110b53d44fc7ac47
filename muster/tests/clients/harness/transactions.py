"""Processors that consume and produce in transactions, while the server is killed."""

from harness.kills import KILL_SESSION_MS, Kills

PROCESSORS = 2
PROCESSOR_KILLED_ONE_IN = 20


class Transactions(Kills):
    """Each input is once in the output. The processors also abort transactions on purpose, whose
    records have ids that no input has."""

    name = "transactions"
    clients = ("java", "franz-go")

    def start_processors(self):
        for number in range(PROCESSORS):
            self.start_processor(f"p{number}", f"p{number}")

    def start_processor(self, name, transactional_id):
        processor = self.start("process", name, transactional_id, session_ms=KILL_SESSION_MS)
        processor.transactional_id = transactional_id
        self.processors.append(processor)

    def victims(self):
        return [self.kill] * self.case.kills

    def kill(self):
        """Kills the server, and sometimes a processor, too. The successor of the processor has its
        transactional id."""
        if self.random.randrange(PROCESSOR_KILLED_ONE_IN) == 0:
            victim = self.random.choice([p for p in self.processors if not p.expected_to_end])
            victim.kill()
            self.kill_server()
            name = f"{victim.transactional_id}-{len(self.processors)}"
            self.start_processor(name, victim.transactional_id)
        else:
            self.kill_server()

    def expected(self, inputs):
        return inputs

    def figures(self):
        committed = sum(p.count("transacted") for p in self.processors)
        aborted = sum(p.count("aborted") for p in self.processors)
        return f"{super().figures()}, {committed} transactions committed, {aborted} aborted"
