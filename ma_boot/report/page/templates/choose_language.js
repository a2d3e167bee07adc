document.documentElement.lang = /^zh/i.test(navigator.language) ? 'zh-CN' : 'en';
