//! The compiled form of an expression: a graph of states that is walked over a name.

use super::INSTRUCTIONS_MAX;
use super::RegexError;
use super::ascii::AsciiSet;
use alloc::vec::Vec;

/// The number of a state.
pub(super) type StateIndex = u32;

#[derive(Debug, Clone)]
pub(super) struct Program {
    pub(super) start: StateIndex,
    pub(super) states: Vec<State>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// Consumes one character.
    Class(AsciiSet, StateIndex),
    /// Continues in two states.
    Split(StateIndex, StateIndex),
    /// Continues if the condition holds.
    Look(Look, StateIndex),
    Match,
}

/// A condition on a position between two characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    TextStart,
    TextEnd,
    LineStart,
    LineEnd,
    WordBoundary,
    NoWordBoundary,
}

/// An instruction while the expression is parsed. Jumps are relative, so that code can be copied.
#[derive(Debug, Clone, Copy)]
enum Instruction {
    /// Reserved before an atom. It may be replaced by another instruction later.
    Nothing,
    Class(AsciiSet),
    Look(Look),
    Jump(u32),
    /// A choice: continues both with the next instruction and with the instruction this many places
    /// ahead.
    Skip(u32),
    /// A choice: continues both with the next instruction and with the instruction this many places
    /// back.
    Again(u32),
}

/// Code in the order of the expression. Each atom begins with a reserved instruction.
#[derive(Debug, Default)]
pub(super) struct Code {
    instructions: Vec<Instruction>,
    /// The number of instructions ever created, including removed ones. It is limited, because it
    /// measures the work of parsing.
    made: usize,
}

impl Code {
    pub(super) fn len(&self) -> usize {
        self.instructions.len()
    }

    /// Reserves an instruction and returns its index.
    pub(super) fn keep_place(&mut self) -> Result<usize, RegexError> {
        self.push(Instruction::Nothing)?;
        Ok(self.len() - 1)
    }

    pub(super) fn class(&mut self, set: AsciiSet) -> Result<(), RegexError> {
        self.push(Instruction::Class(set))
    }

    pub(super) fn look(&mut self, look: Look) -> Result<(), RegexError> {
        self.push(Instruction::Look(look))
    }

    /// Makes the code from a reserved instruction to the end optional. If the reserved instruction
    /// was replaced before, the code is optional already.
    pub(super) fn make_optional(&mut self, place: usize) {
        self.skip_to(place, self.len());
    }

    /// Replaces a reserved instruction by a choice, which continues next to it and also at `to`,
    /// further ahead.
    pub(super) fn skip_to(&mut self, place: usize, to: usize) {
        if let instruction @ Instruction::Nothing = &mut self.instructions[place] {
            *instruction = Instruction::Skip((to - place) as u32);
        }
    }

    /// Turns a reserved instruction into a jump ahead.
    pub(super) fn jump_to(&mut self, place: usize, to: usize) {
        self.instructions[place] = Instruction::Jump((to - place) as u32);
    }

    /// Makes the code after a reserved instruction repeatable. The reserved instruction itself is
    /// not repeated, because it may be replaced later.
    pub(super) fn make_repeatable(&mut self, place: usize) -> Result<(), RegexError> {
        let back = (self.len() - place - 1) as u32;
        self.push(Instruction::Again(back))
    }

    /// Repeats the code from a reserved instruction to the end, `min` to `max` times.
    pub(super) fn repeat(
        &mut self,
        place: usize,
        min: usize,
        max: Option<usize>,
    ) -> Result<(), RegexError> {
        let copies = max.unwrap_or(min.max(1));
        if copies == 0 {
            self.instructions.truncate(place + 1);
            self.instructions[place] = Instruction::Nothing;
            return Ok(());
        }
        let len = self.len() - place;
        self.spend(len * (copies - 1))?;
        let one = place..self.len();
        for _ in 1..copies {
            self.instructions.extend_from_within(one.clone());
        }
        let end = self.len();
        for copy in min..copies {
            self.skip_to(place + copy * len, end);
        }
        if max.is_none() {
            self.make_repeatable(end - len)?;
            if min == 0 {
                self.make_optional(place);
            }
        }
        Ok(())
    }

    /// Builds the states, with all jumps resolved.
    pub(super) fn finish(self) -> Program {
        let code = self.instructions;
        let mut entry = alloc::vec![0; code.len() + 1];
        let mut states = alloc::vec![State::Match];
        for at in (0..code.len()).rev() {
            let next = entry[at + 1];
            let state = match code[at] {
                Instruction::Nothing => {
                    entry[at] = next;
                    continue;
                }
                Instruction::Jump(ahead) => {
                    entry[at] = entry[at + ahead as usize];
                    continue;
                }
                Instruction::Class(set) => State::Class(set, next),
                Instruction::Look(look) => State::Look(look, next),
                Instruction::Skip(ahead) => State::Split(next, entry[at + ahead as usize]),
                // The state at the target of the jump back does not exist yet.
                Instruction::Again(_) => State::Split(next, next),
            };
            entry[at] = states.len() as StateIndex;
            states.push(state);
        }
        for (at, instruction) in code.iter().enumerate() {
            if let Instruction::Again(back) = instruction
                && let State::Split(_, again) = &mut states[entry[at] as usize]
            {
                *again = entry[at - *back as usize];
            }
        }
        Program { start: entry[0], states }
    }

    fn push(&mut self, instruction: Instruction) -> Result<(), RegexError> {
        self.spend(1)?;
        self.instructions.push(instruction);
        Ok(())
    }

    fn spend(&mut self, instructions: usize) -> Result<(), RegexError> {
        self.made += instructions;
        if self.made > INSTRUCTIONS_MAX { Err(RegexError::TooLarge) } else { Ok(()) }
    }
}
