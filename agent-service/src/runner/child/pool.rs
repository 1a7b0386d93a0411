//! The persistent instances of one agent, one a key.
//!
//! No lock is held over a spawn, a request or a kill. Tasks come one at a time, so the lock only guards
//! a map; what takes time is waited for outside it.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use agent_core::child::{Key, Scope};
use agent_wire::child::{Hello, Request, Trigger};
use service_kit::clock::Clock;
use service_kit::lifecycle::Tasks;
use service_kit::vars::Vars;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, info_span};

use super::env::{self, For};
use super::failures::Failures;
use super::instance::{Answered, Instance, Limits, Live, Parts, Reason};
use super::stderr::{self, Stderr};
use super::tmp::Tmp;
use super::unix::Spawner;
use super::{Persistent, Spec, Verdict, seconds_left, spawn_error};

type Slot = (Scope, Key);

/// The instances of one agent.
pub(super) struct Pool {
    spec: Arc<Spec>,
    persistent: Persistent,
    spawner: Spawner,
    vars: Vars,
    clock: Clock,
    tasks: Tasks,
    state: Mutex<State>,
    /// Told whenever an instance is gone.
    freed: Arc<Notify>,
}

/// What bounds a wait of a task.
struct Until<'a> {
    deadline: Instant,
    stop: &'a CancellationToken,
}

impl Until<'_> {
    /// Waits for the stop or the deadline. A worker that stops a task at its deadline means the deadline.
    async fn over(&self) -> Verdict {
        tokio::select! {
            () = self.stop.cancelled() => {}
            () = sleep_until(self.deadline) => {}
        }
        Verdict::stopped(self.deadline)
    }
}

struct State {
    live: BTreeMap<Slot, Held>,
    /// They count against `max_instances` until they are gone.
    retiring: Vec<Arc<Instance>>,
    failures: Failures<Slot>,
}

struct Held {
    instance: Arc<Instance>,
    /// By the service's monotonic clock.
    used: Duration,
    requests: u64,
}

impl Pool {
    pub(super) fn new(
        spec: Arc<Spec>,
        persistent: Persistent,
        spawner: Spawner,
        vars: Vars,
        clock: Clock,
        tasks: Tasks,
    ) -> Self {
        let state =
            State { live: BTreeMap::new(), retiring: Vec::new(), failures: Failures::new() };
        let (state, freed) = (Mutex::new(state), Arc::new(Notify::new()));
        Self { spec, persistent, spawner, vars, clock, tasks, state, freed }
    }

    /// The payload's field that selects the instance.
    pub(super) fn key_field(&self) -> Option<&str> {
        self.persistent.key.as_deref()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the instance of this key, and returns what came of it.
    ///
    /// After a timeout, a stop, a loss or a fault of the protocol it returns when the group is gone.
    pub(super) async fn ask(
        &self,
        scope: Scope,
        key: Key,
        trigger: Trigger,
        deadline: Instant,
        stop: CancellationToken,
    ) -> Verdict {
        let slot = (scope, key);
        let until = Until { deadline, stop: &stop };
        let mut last = String::new();
        // Dead before the first byte: once more, on a fresh instance. Never after a byte was accepted.
        for _attempt in 0..2 {
            let (instance, id) = match self.instance(&slot, &until).await {
                Ok(found) => found,
                Err(verdict) => return verdict,
            };
            let request = Request {
                id: id.to_string(),
                agent: self.spec.agent.clone(),
                deadline_seconds: seconds_left(deadline),
                trigger: trigger.clone(),
            };
            let line = with_newline(request.to_line());
            let asked = tokio::select! {
                biased;
                answered = instance.ask(request.id, line) => answered,
                verdict = until.over() => {
                    self.discard(&slot, &instance, reason(&verdict)).await;
                    return verdict;
                }
            };
            match asked {
                Answered::Response(response) => {
                    self.state().failures.forget(&slot);
                    let success = response.is_success();
                    let exit_code = response.exit_code.unwrap_or_else(|| i32::from(!success));
                    return Verdict::Answered { exit_code, text: response.text().to_owned() };
                }
                Answered::Lost(why) => {
                    self.discard(&slot, &instance, Reason::Crashed).await;
                    return Verdict::Lost(why);
                }
                Answered::NotAccepted(why) => {
                    self.retire(&slot, &instance, Reason::Crashed);
                    last = why;
                }
            }
        }
        let why = format!("it ended twice before it took the request: {last}");
        self.note_failure(&slot, &why);
        Verdict::NotStarted(why)
    }

    /// The live instance of a slot, and the number of the request; a new one if there is none.
    async fn instance(
        &self,
        slot: &Slot,
        until: &Until<'_>,
    ) -> Result<(Arc<Instance>, u64), Verdict> {
        let now = self.clock.uptime();
        {
            let mut state = self.state();
            if let Some(held) = state.live.get_mut(slot).filter(|held| held.instance.is_live()) {
                held.used = now;
                held.requests = held.requests.saturating_add(1);
                return Ok((Arc::clone(&held.instance), held.requests));
            }
            if let Some(ended) = state.live.remove(slot) {
                state.retiring.push(ended.instance);
            }
            if let Some(why) = state.failures.hold(slot, now) {
                return Err(Verdict::NotStarted(why));
            }
        }
        tokio::select! {
            biased;
            () = self.make_room() => {}
            verdict = until.over() => return Err(verdict),
        }
        let (instance, live) = match self.spawn(slot).await {
            Ok(spawned) => spawned,
            Err(why) => {
                self.note_failure(slot, &why);
                return Err(Verdict::NotStarted(why));
            }
        };
        // From now on it counts, and whatever stops the service retires it.
        let held = Held { instance: Arc::clone(&instance), used: self.clock.uptime(), requests: 1 };
        self.state().live.insert(slot.clone(), held);
        tokio::select! {
            biased;
            live = live => {
                let ended = || Err("it ended before it was ready".to_owned());
                match live.unwrap_or_else(|_dropped| ended()) {
                    Ok(()) => Ok((instance, 1)),
                    Err(why) => {
                        // Nothing was asked of it, so the next task need not wait until it is gone.
                        self.retire(slot, &instance, Reason::Startup);
                        self.note_failure(slot, &why);
                        Err(Verdict::NotStarted(why))
                    }
                }
            }
            verdict = until.over() => {
                self.discard(slot, &instance, reason(&verdict)).await;
                Err(verdict)
            }
        }
    }

    /// Retires the least recently used instances until one more fits, and waits for them.
    async fn make_room(&self) {
        loop {
            let freed = self.freed.notified();
            if self.state().has_room(self.persistent.max_instances) {
                return;
            }
            freed.await;
        }
    }

    /// Spawns an instance, which then shakes hands on its own.
    async fn spawn(&self, slot: &Slot) -> Result<(Arc<Instance>, Live), String> {
        let (scope, key) = slot;
        let (spec, label) = (&self.spec, key.label());
        let tmp = Tmp::create(&spec.state_dir).await?;
        let kind = For::Persistent { label: &label, source: *scope };
        let mut command = env::command(spec, &self.vars, &self.clock, tmp.path(), kind);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let spawned = self.spawner.spawn(command).await.and_then(|mut group| {
            let stderr = group.child().stderr.take();
            Ok((group, stderr.ok_or_else(|| std::io::Error::other("it has no stderr"))?))
        });
        let (group, stderr) = match spawned {
            Ok(spawned) => spawned,
            Err(error) => {
                tmp.remove().await;
                return Err(spawn_error(spec, &error));
            }
        };
        let pid = group.pid();
        let source = stderr::Source { agent: spec.agent.clone(), key: label.clone(), pid };
        let hello = Hello { agent: spec.agent.clone(), key: label.clone() };
        let (instance, live, drive) = Instance::new(Parts {
            group,
            stderr: Stderr::read(stderr, source, &self.tasks),
            hello: with_newline(hello.to_line()),
            label,
            agent: spec.agent.clone(),
            tmp,
            limits: Limits {
                max_line_bytes: spec.max_line_bytes,
                max_invocations: self.persistent.max_invocations,
                startup_timeout: self.persistent.startup_timeout,
                idle_timeout: self.persistent.idle_timeout,
                grace: spec.grace,
            },
            at_once: self.tasks.hard_stop().clone(),
            freed: Arc::clone(&self.freed),
        });
        // Not a part of the task that happened to need it first.
        let span = info_span!(parent: None, "instance", agent = spec.agent, pid);
        drop(self.tasks.spawn(drive.instrument(span)));
        Ok((Arc::new(instance), live))
    }

    fn note_failure(&self, slot: &Slot, why: &str) {
        let now = self.clock.uptime();
        self.state().failures.note(slot, why, now);
    }

    /// Lets an instance go beside what comes next.
    fn retire(&self, slot: &Slot, instance: &Arc<Instance>, reason: Reason) {
        let mut state = self.state();
        if state.live.get(slot).is_some_and(|held| Arc::ptr_eq(&held.instance, instance)) {
            state.live.remove(slot);
            state.retiring.push(Arc::clone(instance));
        }
        instance.retire(reason);
    }

    /// Lets an instance go, and waits until it is gone.
    async fn discard(&self, slot: &Slot, instance: &Arc<Instance>, reason: Reason) {
        self.retire(slot, instance, reason);
        instance.gone().await;
    }

    /// Retires all instances side by side, and waits until they are gone.
    pub(super) async fn close(&self) {
        let all = {
            let mut state = self.state();
            let live = std::mem::take(&mut state.live).into_values().map(|held| held.instance);
            let mut all: Vec<_> = live.collect();
            all.append(&mut state.retiring);
            all
        };
        for instance in &all {
            instance.retire(Reason::Shutdown);
        }
        for instance in &all {
            instance.gone().await;
        }
    }
}

impl State {
    /// Whether one more fits; if not, the least recently used one was told to go, or others are going.
    fn has_room(&mut self, max_instances: usize) -> bool {
        // Those that ended by themselves go first.
        let ended = self.live.extract_if(.., |_, held| !held.instance.is_live());
        let ended: Vec<_> = ended.map(|(_, held)| held.instance).collect();
        self.retiring.extend(ended);
        self.retiring.retain(|instance| !instance.is_gone());
        let count = self.live.len().saturating_add(self.retiring.len());
        if count < max_instances {
            return true;
        }
        // One that is going already will make the room, unless more is needed.
        if self.live.len() >= max_instances {
            let oldest = self.live.iter().min_by_key(|(_, held)| held.used);
            if let Some(slot) = oldest.map(|(slot, _)| slot.clone())
                && let Some(held) = self.live.remove(&slot)
            {
                held.instance.retire(Reason::Evicted);
                self.retiring.push(held.instance);
            }
        }
        false
    }
}

fn reason(verdict: &Verdict) -> Reason {
    if *verdict == Verdict::TimedOut { Reason::Timeout } else { Reason::Cancelled }
}

fn with_newline(line: String) -> Vec<u8> {
    let mut bytes = line.into_bytes();
    if bytes.last() != Some(&b'\n') {
        bytes.push(b'\n');
    }
    bytes
}
