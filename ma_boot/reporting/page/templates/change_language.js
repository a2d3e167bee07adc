const page = document.documentElement, button = document.createElement('button');
const isChinese = () => /^zh/.test(page.lang);
const relabel = () => { button.textContent = isChinese() ? 'English' : '中文'; };
button.type = 'button';
button.id = 'language';
button.onclick = () => { page.lang = isChinese() ? 'en' : 'zh-CN'; relabel(); };
relabel();
document.querySelector('footer').appendChild(button);
