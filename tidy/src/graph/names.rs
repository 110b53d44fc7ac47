//! Where a path leads: the module that defines its item.

use super::modules::{Binding, Crate, ModuleId, Target};
use std::collections::BTreeSet;

impl Crate<'_> {
    /// Everything that a path in a module leads to: a name may be both a module and a function.
    /// Nothing if it leads out of the crate.
    pub(super) fn resolve(&self, from: ModuleId, path: &[String]) -> BTreeSet<Target> {
        self.follow(from, path, &mut Vec::new())
    }

    /// Whether a module is below another, or is it.
    pub(super) fn is_below(&self, module: ModuleId, above: ModuleId) -> bool {
        self.ancestors(module).any(|it| it == above)
    }

    /// Resolves a path. `under_way` has the names whose lookups led here, each with its module.
    fn follow<'n>(
        &'n self,
        from: ModuleId,
        path: &'n [String],
        under_way: &mut Vec<(ModuleId, &'n str)>,
    ) -> BTreeSet<Target> {
        let Some(first) = path.first() else { return BTreeSet::new() };
        let (mut at, mut rest, mut is_ours) = match first.as_str() {
            "crate" => (self.root(from), &path[1..], true),
            "self" | "super" => (from, path, true),
            _ => (from, path, false),
        };
        while let Some((name, further)) = rest.split_first() {
            rest = further;
            match name.as_str() {
                "self" => continue,
                "super" => {
                    let Some(parent) = self.modules[at].parent else { return BTreeSet::new() };
                    at = parent;
                    continue;
                }
                _ => {}
            }
            let mut targets = self.look_up(at, name, under_way);
            let is_bound = self.modules[at].names.contains_key(name);
            if targets.is_empty() && is_ours && !is_bound {
                // A macro of the module makes the item.
                targets.insert(Target::Item(at));
            }
            let below = targets.iter().find_map(|it| match it {
                Target::Module(module) => Some(*module),
                Target::Item(_) => None,
            });
            match below {
                Some(module) if !rest.is_empty() => at = module,
                _ => return targets,
            }
            is_ours = true;
        }
        BTreeSet::from([Target::Module(at)])
    }

    /// The item that a name stands for in a module. Modules may glob each other, so a lookup may
    /// come back to a name that is still under way: the result is found where the circle began.
    fn look_up<'n>(
        &'n self,
        module: ModuleId,
        name: &'n str,
        under_way: &mut Vec<(ModuleId, &'n str)>,
    ) -> BTreeSet<Target> {
        if under_way.contains(&(module, name)) {
            return BTreeSet::new();
        }
        let key = (module, name.to_owned());
        if let Some(known) = self.known.borrow().get(&key) {
            return known.clone();
        }
        under_way.push((module, name));
        let targets = self.look_up_once(module, name, under_way);
        under_way.pop();
        // Further in, a circle may have hidden a part.
        if under_way.is_empty() {
            self.known.borrow_mut().insert(key, targets.clone());
        }
        targets
    }

    fn look_up_once<'n>(
        &'n self,
        module: ModuleId,
        name: &'n str,
        under_way: &mut Vec<(ModuleId, &'n str)>,
    ) -> BTreeSet<Target> {
        let mut targets = BTreeSet::new();
        for binding in self.modules[module].names.get(name).into_iter().flatten() {
            match binding {
                Binding::Module(below) => drop(targets.insert(Target::Module(*below))),
                Binding::Item(defined) => drop(targets.insert(Target::Item(*defined))),
                Binding::Use(path) => targets.extend(self.follow(module, path, under_way)),
            }
        }
        if !targets.is_empty() {
            return targets;
        }
        for glob in &self.modules[module].globs {
            for target in self.follow(module, glob, under_way) {
                match target {
                    Target::Module(within) if within != module => {
                        targets.extend(self.look_up(within, name, under_way));
                    }
                    Target::Module(_) | Target::Item(_) => {}
                }
            }
        }
        targets
    }

    fn root(&self, module: ModuleId) -> ModuleId {
        self.ancestors(module).last().unwrap_or(module)
    }

    fn ancestors(&self, module: ModuleId) -> impl Iterator<Item = ModuleId> {
        std::iter::successors(Some(module), |it| self.modules[*it].parent)
    }
}
