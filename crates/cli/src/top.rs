//! `carve top`: a fleet in a terminal, again and again or once.

use crate::args::MachineArgs;
use crate::failure::{Failure, Outcome, UNREADABLE};
use crate::looks::LooksArgs;
use crate::print;
use carve_fleet_picture::Picture;
use carve_top::{Key, Sort, View, draw, once};
use clap::{Args, ValueEnum};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use std::io::IsTerminal;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// How often it is looked.
const LOOK: Duration = Duration::from_secs(1);
/// How long keys are waited for before the screen is drawn anew.
const BEAT: Duration = Duration::from_millis(100);

#[derive(Debug, Args)]
pub(crate) struct TopArgs {
    /// Print it once, and end
    #[arg(long)]
    once: bool,
    /// In which order
    #[arg(long, value_enum, default_value_t = Order::Name)]
    sort: Order,
    /// Only lines with all of these words: node, product, pod, workload, way of sharing
    #[arg(long, value_name = "WORDS", default_value = "")]
    filter: String,
    #[command(flatten)]
    looks: LooksArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Order {
    /// By node and GPU
    Name,
    /// Busiest first
    Use,
    /// Held and not used first
    Waste,
    /// Most memory first
    Memory,
    /// Most held back first
    Throttled,
}

impl Order {
    fn sort(self) -> Sort {
        match self {
            Order::Name => Sort::Name,
            Order::Use => Sort::Use,
            Order::Waste => Sort::Waste,
            Order::Memory => Sort::Memory,
            Order::Throttled => Sort::Throttled,
        }
    }
}

/// Shows it.
pub(crate) fn top(machine: &MachineArgs, args: &TopArgs) -> Outcome {
    let source = args.looks.source(machine)?;
    let first = source.picture()?;
    if args.once {
        return print::out(&once(&first, args.sort.sort(), &args.filter));
    }
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        let words = "this is no terminal, and there is nothing to draw on";
        return Err(
            Failure { code: UNREADABLE, ..Failure::new(words) }.hint("carve top --once prints it as text")
        );
    }
    let (send, pictures) = channel();
    let looking = source.clone();
    std::thread::spawn(move || {
        loop {
            std::thread::sleep(LOOK);
            if send.send(looking.picture().map_err(|failure| failure.message)).is_err() {
                return;
            }
        }
    });
    let view = View { sort: args.sort.sort(), filter: args.filter.clone(), ..View::default() };
    let shown = show(&mut ratatui::init(), first, view, &pictures);
    // The terminal is what it was before, whatever happened.
    ratatui::restore();
    shown.map_err(|error| Failure::new(format!("the terminal does not do what it is told: {error}")))
}

type Looks = Receiver<Result<Picture, String>>;

fn show(
    terminal: &mut DefaultTerminal,
    first: Picture,
    mut view: View,
    looks: &Looks,
) -> std::io::Result<()> {
    let (mut picture, mut trouble) = (first, None);
    let mut size = (0, 0);
    loop {
        while let Ok(look) = looks.try_recv() {
            match look {
                Ok(newer) => (picture, trouble) = (newer, None),
                Err(why) => trouble = Some(format!("this is not the newest: {why}")),
            }
        }
        terminal.draw(|frame| size = draw(frame, &picture, &view, trouble.as_deref()))?;
        if event::poll(BEAT)?
            && let Some(key) = key(&event::read()?)
            && !view.press(key, size.0, size.1)
        {
            return Ok(());
        }
    }
}

fn key(event: &Event) -> Option<Key> {
    let Event::Key(pressed) = event else { return None };
    if pressed.kind == KeyEventKind::Release {
        return None;
    }
    Some(match pressed.code {
        KeyCode::Char('c') if pressed.modifiers.contains(KeyModifiers::CONTROL) => Key::Interrupt,
        KeyCode::Char(letter) => Key::Letter(letter),
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Escape,
        KeyCode::Backspace => Key::Backspace,
        _ => return None,
    })
}
