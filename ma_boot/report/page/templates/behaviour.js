(() => {
  const root = document.documentElement, chinese = () => /^zh/.test(root.lang);
  const all = (selector, from = document) => [...from.querySelectorAll(selector)];
  const make = (tag, properties, ...children) => {
    const made = Object.assign(document.createElement(tag), properties);
    made.append(...children);
    return made;
  };
  const both = (en, zh) => [make('span', { className: 'en', textContent: en }),
    make('span', { className: 'zh', lang: 'zh-CN', textContent: zh })];

  // The language
  const language = make('button', { type: 'button', id: 'language' });
  const relabel = () => { language.textContent = chinese() ? 'English' : '中文'; };
  language.onclick = () => { root.lang = chinese() ? 'en' : 'zh-CN'; relabel(); clocks(); };
  document.querySelector('header').prepend(language);

  // Times as the reader's clock shows them
  const clocks = () => {
    for (const time of all('time')) {
      const at = new Date(time.dateTime), whole = time.dataset.as !== 'clock';
      const zone = -at.getTimezoneOffset() / 60;
      const figures = [at.getFullYear(), at.getMonth() + 1, at.getDate(), at.getHours(), at.getMinutes(), at.getSeconds()]
        .map((figure) => String(figure).padStart(2, '0'));
      const clock = figures.slice(3).join(':');
      time.textContent = whole ? `${figures.slice(0, 3).join('-')} ${clock} (UTC${zone < 0 ? '' : '+'}${zone})` : clock;
      time.title = time.dateTime;
    }
  };

  // What can be copied
  const copy = async (text) => {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const area = make('textarea', { value: text });
      document.body.append(area);
      area.select();
      document.execCommand('copy');
      area.remove();
    }
  };
  for (const box of all('.box, h1 .cause-words')) {
    const button = make('button', { type: 'button', className: 'copy' }, ...both('Copy', '复制'));
    button.onclick = async () => {
      await copy((box.querySelector('pre') || box.querySelector('code')).innerText);
      button.classList.add('done');
      setTimeout(() => button.classList.remove('done'), 1200);
    };
    box.append(button);
  }

  // A line through everything that is drawn over the time of this start
  const span = document.querySelector('main').dataset, seconds = Number(span.seconds), began = Number(span.began);
  const label = (at) => (seconds < 100 ? `${at.toFixed(1)} s` : new Date(at * 1000).toISOString().slice(11, 19));
  for (const drawing of all('section:not(#starts) .drawing')) {
    drawing.onpointermove = (event) => {
      const box = drawing.getBoundingClientRect(), share = (event.clientX - box.left) / box.width;
      if (share < 0 || share > 1) return;
      root.style.setProperty('--now', `${share * 100}%`);
      root.classList.add('pointing');
      hint.textContent = label(share * seconds) + (began ? ` · ${new Date((began + share * seconds) * 1000).toTimeString().slice(0, 8)}` : '');
      hint.style.left = `${Math.min(event.pageX + 12, root.clientWidth - 150)}px`;
      hint.style.top = `${event.pageY - 34}px`;
    };
    drawing.onpointerleave = () => root.classList.remove('pointing');
  }
  const hint = make('div', { className: 'hint' });
  document.body.append(hint);

  // Search in the logs, whose lines have numbers that can be linked
  const logs = document.querySelector('#logs');
  if (logs) {
    const boxes = all('details', logs).map((details) => {
      const pre = details.querySelector('pre'), numbers = make('div', { className: 'numbers' });
      const row = make('div', { className: 'lines' }, numbers);
      pre.before(row);
      row.append(pre);
      const box = { details, pre, numbers, lines: pre.textContent.split('\n'), name: details.querySelector('summary').textContent.toLowerCase(), open: details.open };
      box.shown = box.lines.map((line, at) => at);
      details.addEventListener('toggle', () => number(box));
      return box;
    });
    const number = (box) => {
      const cut = box.lines[0] === '…', of = (at) => (cut ? at && at - box.lines.length : at + 1) || '';
      box.numbers.replaceChildren(...(box.details.open ? box.shown : []).map((at) =>
        of(at) === '' ? make('span', { textContent: '…' })
          : make('a', { href: `#${box.details.id}:${of(at)}`, textContent: of(at), tabIndex: -1, className: String(of(at)) === box.chosen ? 'chosen' : '' })));
    };
    const go = () => {
      const [id, at] = location.hash.slice(1).split(':'), box = boxes.find((one) => one.details.id === id);
      if (!box) return;
      box.details.open = box.open = true;
      for (const one of boxes) one.chosen = one === box ? at : null;
      boxes.forEach(number);
      const lines = all('.chosen', box.numbers).filter((line) => line.offsetParent);
      (lines[0] || box.details).scrollIntoView({ block: 'center' });
    };
    boxes.forEach(number);
    addEventListener('hashchange', go);
    go();
    const input = make('input', { type: 'search', id: 'search', autocomplete: 'off', spellcheck: false });
    const bad = make('button', { type: 'button', id: 'bad', ariaPressed: 'false' }, ...both('Warnings and errors', '警告与错误'));
    const every = make('button', { type: 'button', id: 'every' }, ...both('Open all', '全部展开'));
    const found = make('output', { id: 'found' });
    const trouble = /error|exception|traceback|fail|fatal|critical|abort|warn|killed|\bE[IJKZ]\d{4}\b/i;
    const show = () => {
      const words = input.value.trim().toLowerCase(), onlyBad = bad.ariaPressed === 'true';
      let hits = 0, shown = 0;
      for (const box of boxes) {
        const named = words && box.name.includes(words);
        const whole = box.lines.map((line, at) => at), chosen = (!words && !onlyBad) ? null : whole.filter((at) =>
          (!words || named || box.lines[at].toLowerCase().includes(words)) && (!onlyBad || trouble.test(box.lines[at])));
        box.shown = chosen || whole;
        box.details.hidden = chosen !== null && !chosen.length;
        shown += !box.details.hidden;
        if (chosen === null) {
          box.pre.textContent = box.lines.join('\n');
          box.details.open = box.open;
          number(box);
          continue;
        }
        box.details.open = chosen.length > 0;
        hits += chosen.length;
        number(box);
        box.pre.replaceChildren(...chosen.map((at) => box.lines[at]).flatMap((line) => {
          const at = words && !named ? line.toLowerCase().indexOf(words) : -1;
          return at < 0 ? [line, '\n'] : [line.slice(0, at), make('mark', { textContent: line.slice(at, at + words.length) }),
            line.slice(at + words.length), '\n'];
        }));
      }
      found.replaceChildren(...(words || onlyBad ? both(`${hits} lines in ${shown} logs`, `${shown} 个日志中的 ${hits} 行`) : []));
    };
    let later;
    input.oninput = () => { clearTimeout(later); later = setTimeout(show, 120); };
    bad.onclick = () => { bad.ariaPressed = String(bad.ariaPressed !== 'true'); show(); };
    every.onclick = () => {
      const open = boxes.some((box) => !box.details.hidden && !box.details.open);
      for (const box of boxes) box.details.open = box.open = open;
    };
    const place = () => { input.placeholder = chinese() ? '在日志中搜索' : 'Search in the logs'; };
    language.addEventListener('click', place);
    place();
    logs.querySelector('h2').after(make('div', { className: 'tools' }, input, bad, every, found));
  }
  relabel();
  clocks();
})();
